#include "tests/benchmarks/measurement.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "nlohmann/json.hpp"

namespace ferry {

void report(absl::string_view name, double value, absl::string_view unit,
            absl::string_view reference) {
  nlohmann::ordered_json line;
  line["name"] = std::string(name);
  line["value"] = value;
  line["unit"] = std::string(unit);
  line["reference"] = std::string(reference);
  std::cout << line.dump() << std::endl;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

void require(bool condition, absl::string_view what) {
  if (condition) return;
  std::cerr << "bench: " << what << std::endl;
  std::exit(1);
}

}  // namespace ferry

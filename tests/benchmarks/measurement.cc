#include "tests/benchmarks/measurement.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include "absl/strings/str_format.h"
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

std::vector<double> measure_ratios(int pairs,
                                   const std::function<double()>& first,
                                   const std::function<double()>& second) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    double a = 0;
    if (i % 2 == 0) a = first();
    const double b = second();
    if (i % 2 != 0) a = first();
    ratios.push_back(a / b);
    std::cerr << absl::StrFormat("pair %2d: %10.1f : %10.1f = %.3f\n", i + 1, a,
                                 b, ratios.back());
  }
  return ratios;
}

double median_ratio(int pairs, const std::function<double()>& first,
                    const std::function<double()>& second) {
  return median(measure_ratios(pairs, first, second));
}

void require(bool condition, absl::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

}  // namespace ferry

#include "tests/benchmarks/measurement.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "platform/base/check.h"

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
  FERRY_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

std::vector<Pair> measure_pairs(int pairs, const std::function<double()>& first,
                                const std::function<double()>& second) {
  std::vector<Pair> result;
  for (int i = 0; i < pairs; ++i) {
    Pair pair;
    if (i % 2 == 0) pair.first = first();
    pair.second = second();
    if (i % 2 != 0) pair.first = first();
    result.push_back(pair);
    std::cerr << absl::StrFormat("pair %2d: %10.1f : %10.1f = %.3f\n", i + 1,
                                 pair.first, pair.second,
                                 pair.first / pair.second);
  }
  return result;
}

double median_ratio(const std::vector<Pair>& pairs) {
  std::vector<double> ratios;
  ratios.reserve(pairs.size());
  for (const Pair& pair : pairs) ratios.push_back(pair.first / pair.second);
  return median(std::move(ratios));
}

double ratio_of_medians(const std::vector<Pair>& pairs) {
  std::vector<double> firsts;
  std::vector<double> seconds;
  for (const Pair& pair : pairs) {
    firsts.push_back(pair.first);
    seconds.push_back(pair.second);
  }
  return median(std::move(firsts)) / median(std::move(seconds));
}

void require(bool condition, absl::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

}  // namespace ferry

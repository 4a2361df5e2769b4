// oracle_check FILE.jsonl…: compares recorded decisions with ours.

#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/oracle/compare_cases.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: oracle_check CONFIG_CASES.jsonl PLAN_CASES.jsonl\n";
    return 2;
  }
  int compared = 0;
  size_t differ = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    if (!file || !text) {
      std::cerr << argv[i] << ": cannot be read\n";
      return 2;
    }
    const auto comparison = ferry::compare_cases(argv[i], text.str());
    if (!comparison.ok()) {
      std::cerr << comparison.status().message() << "\n";
      return 2;
    }
    for (const std::string& difference : comparison->differences) {
      std::cout << difference << "\n";
    }
    compared += comparison->compared;
    differ += comparison->differences.size();
  }
  std::cout << compared << " compared, " << differ << " differ\n";
  return differ == 0 ? 0 : 1;
}

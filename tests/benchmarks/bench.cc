// Measures the daemon. Prints JSON lines on standard output.
//
//   bench PACKAGE [BENCHMARK]

#include <string>

#include "tests/benchmarks/benchmark_main.h"
#include "tests/benchmarks/cancel_latency.h"
#include "tests/benchmarks/generate_overhead.h"
#include "tests/benchmarks/start_time.h"
#include "tests/benchmarks/stream_rate.h"
#include "tests/benchmarks/unary_rate.h"

int main(int argc, char** argv) {
  return ferry::benchmark_main(argc, argv, [](const std::string& package) {
    return ferry::Benchmarks{
        {"start_time", [=] { ferry::measure_start_time(package); }},
        {"generate_overhead",
         [=] { ferry::measure_generate_overhead(package); }},
        {"unary_rate", [=] { ferry::measure_unary_rate(package); }},
        {"cancel_latency", ferry::measure_cancel_latency},
        {"stream_rate", ferry::measure_stream_rate},
    };
  });
}

#pragma once

#include <thread>
#include <vector>

namespace ferry {

// Calls `work(rank)` for each rank, on a thread of its own; returns when all
// have returned.
template <typename Work>
void run_ranks(int size, const Work& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&work, rank] { work(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ferry

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace ferry::dry {

// What the ranks of one NCCL group share: a file in /dev/shm that is named by
// the group's id, and a file for what each rank gives to each gather. Ranks may
// be threads or processes.
//
//   join → wait for all → (publish → wait for all → collect)* → leave
//
// Nothing here waits: whoever uses it asks again. Files go when nobody needs
// them, and with the last rank.
//
// Threads: thread-safe, but each rank's publish() and collect() are called in
// the order of its gathers.
class GatherGroup {
 public:
  static constexpr int kMaxRanks = 64;

  // Makes the file of a new group; its id, or an empty one.
  static std::string make_id();
  // Null when there is no such group.
  static std::shared_ptr<GatherGroup> join(const std::string& id, int rank,
                                           int size, int device);
  ~GatherGroup();
  GatherGroup(const GatherGroup&) = delete;
  GatherGroup& operator=(const GatherGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool all_have_joined() const;
  // Two ranks are on one device. Once all have joined.
  bool has_duplicate_device() const;

  // Gives this rank's bytes for gather `number`, counted from 0.
  void publish(int64_t number, const char* in, size_t bytes);
  bool all_have_published(int64_t number) const;
  // Writes all ranks' bytes to `out`, in the order of ranks. False when a rank
  // gave fewer, or left.
  bool collect(int64_t number, char* out, size_t bytes);

  // This rank needs nothing any more.
  void leave();

 private:
  struct Shared;

  GatherGroup(std::string path, Shared* shared, int rank, int size)
      : path_(std::move(path)), shared_(shared), rank_(rank), size_(size) {}

  std::string file(int64_t number, int rank) const;

  const std::string path_;
  Shared* const shared_;
  const int rank_;
  const int size_;
  std::atomic<bool> has_left_{false};
};

}  // namespace ferry::dry

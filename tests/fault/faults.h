#pragma once

#include <string>

#include "tests/support/daemon.h"

namespace ferry {

// The test's side of the fault points: arms one fault at a time in the workers
// of a daemon, also while they run.
//
// Threads: not thread-safe.
class Faults {
 public:
  // No fault is armed.
  Faults();
  // Disarms, so that nothing hangs for ever.
  ~Faults() { disarm(); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // A daemon of this pipeline whose workers have fault points. Restarts cost
  // nothing and are not counted.
  Daemon::Options daemon_options(const std::string& name,
                                 const std::string& package) const;

  // From now on this fault (fault_spec.h) is armed, and only it; hits count
  // from 0.
  void arm(const std::string& fault);
  // No fault is armed; threads that hang go on.
  void disarm();

  // How often the armed fault's point was reached.
  int hits() const;
  // Blocks until it was; returns whether it was.
  bool wait_for_hit(int hit = 1) const;

 private:
  const std::string directory_;
};

}  // namespace ferry

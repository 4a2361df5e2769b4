#pragma once

#include <string>

namespace ferry {

// Where the ranks of one generation of a group meet; see worker.v1.Rendezvous.
struct Rendezvous {
  // 128 random bits in hexadecimal.
  std::string incarnation;
  // HOST:PORT.
  std::string store_address;
};

}  // namespace ferry

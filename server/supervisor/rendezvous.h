#pragma once

#include <string>

namespace ferry {

// Where the ranks of one generation of a group meet; see worker.v1.Rendezvous.
struct Rendezvous {
  // 128 random bits in hexadecimal.
  std::string incarnation;
  // HOST:PORT or [IPV6]:PORT, and its host alone, in numbers.
  std::string store_address;
  std::string store_host;
};

}  // namespace ferry

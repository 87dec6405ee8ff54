#pragma once

#include <cstdlib>
#include <string>

/// The device of tests that can run on any: RETORT_TEST_DEVICE, such as "cuda:0"; "cpu" without it.
inline std::string test_device() {
  const char* const device = std::getenv("RETORT_TEST_DEVICE");
  return device && *device ? device : "cpu";
}

#pragma once

#include <cstdlib>
#include <string>

/// The device for tests that can run on any device: RETORT_TEST_DEVICE, such as "cuda:0"; "cpu"
/// without it.
inline std::string test_device() {
  const char* const device = std::getenv("RETORT_TEST_DEVICE");
  return device && *device ? device : "cpu";
}

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

/// Returns the path of `below` in the folder shared/ next to the checkout, which contains recorded
/// test cases and photographs; empty if it does not exist.
inline std::filesystem::path shared_data(const std::string& below) {
  const std::filesystem::path path =
      std::filesystem::path(RETORT_SOURCE_DIR) / ".." / "shared" / below;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

/// Must be the first line of a test that reads shared files: skips the test if they are absent, or
/// fails it if they are required.
#define RETORT_NEEDS_SHARED(path)                                                   \
  if ((path).empty()) {                                                             \
    if (std::getenv("RETORT_REQUIRE_SHARED")) FAIL() << "../shared does not exist"; \
    GTEST_SKIP() << "../shared does not exist";                                     \
  }

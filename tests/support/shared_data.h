#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

/// Recorded cases and photographs live beside the checkout, not in it. This is where, and empty
/// when they are absent.
inline std::filesystem::path shared_data(const std::string& below) {
  const std::filesystem::path path =
      std::filesystem::path(RETORT_SOURCE_DIR) / ".." / "shared" / below;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

/// First line of a test that reads them: skips it where they are absent, fails it where they are
/// required.
#define RETORT_NEEDS_SHARED(path)                                                 \
  if ((path).empty()) {                                                           \
    if (std::getenv("RETORT_REQUIRE_SHARED")) FAIL() << "../shared is not there"; \
    GTEST_SKIP() << "../shared is not there";                                     \
  }

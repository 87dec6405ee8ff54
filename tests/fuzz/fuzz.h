#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runner/shared/value/value.h"

/// The function that libFuzzer calls with every input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

inline std::string text_of(const std::uint8_t* bytes, std::size_t size) {
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

/// Like same_data(), but NaNs are equal.
inline bool same(const runner::Value& a, const runner::Value& b) {
  const auto* number = std::get_if<double>(&a.data);
  const auto* other = std::get_if<double>(&b.data);
  if (number && other) return *number == *other || (std::isnan(*number) && std::isnan(*other));
  if (a.list() && b.list()) return std::ranges::equal(*a.list(), *b.list(), same);
  if (!a.map() || !b.map()) return same_data(a, b);
  return std::ranges::equal(*a.map(), *b.map(),
                            [](const runner::Entry& left, const runner::Entry& right) {
                              return left.key == right.key && left.key_type == right.key_type &&
                                     same(left.value, right.value);
                            });
}

/// Aborts unless `holds`; libFuzzer counts that as a crash.
inline void require(bool holds, const char* what, const std::string& seen) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, seen.c_str());
  std::abort();
}

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace runner {

/// What an artifact may cache to work faster. No result depends on it.
struct Allowance {
  std::int64_t memory = 0;  ///< bytes of host memory
  std::filesystem::path cache =
      {};                  ///< a folder of this user for data that can be recreated; empty: none
  std::string build = {};  ///< identifies these programs: data cached by another build may have
                           ///< been made differently
};

/// A further base class for artifacts that cache what they make, within an allowance.
class Keeper {
 public:
  virtual ~Keeper() = default;
  /// Bytes of host memory that it could use.
  virtual std::int64_t could_keep() const = 0;
  /// Replaces the previous allowance. Thread-safe, like every function of an artifact.
  virtual void allow(const Allowance& allowance) const = 0;
  /// What it caches outside that memory, for display; empty: nothing.
  virtual std::string kept_elsewhere() const { return ""; }
};

}  // namespace runner

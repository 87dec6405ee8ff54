#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace runner {

/// The resources that an artifact may use as a cache. Results never depend on them.
struct Allowance {
  std::int64_t memory = 0;  ///< bytes of host memory
  std::filesystem::path cache =
      {};                  ///< the user's folder for data that can be recreated; empty: none
  std::string build = {};  ///< identifies this build; others may cache data differently
};

/// An additional base class for artifacts that cache what they compute, within an allowance.
class Keeper {
 public:
  virtual ~Keeper() = default;
  /// Returns how many bytes of host memory the artifact could use for caching.
  virtual std::int64_t could_keep() const = 0;
  /// Replaces the previous allowance. Thread-safe, like every function of an artifact.
  virtual void allow(const Allowance& allowance) const = 0;
  /// Describes, for display, anything cached outside that memory; empty if nothing is.
  virtual std::string kept_elsewhere() const { return ""; }
};

}  // namespace runner

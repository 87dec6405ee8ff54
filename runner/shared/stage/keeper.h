#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace runner {

/// What an artifact may keep so that it does its work sooner. No result depends on it.
struct Allowance {
  std::int64_t memory = 0;  ///< bytes of the host's
  std::filesystem::path cache =
      {};  ///< a folder of this user for what can be made again; empty: none
  std::string build =
      {};  ///< of these programs: what another has left there may be made another way
};

/// An artifact beside that, which keeps what it has made as far as it is allowed to.
class Keeper {
 public:
  virtual ~Keeper() = default;
  /// Bytes of the host's memory that it could use.
  virtual std::int64_t could_keep() const = 0;
  /// In place of what it was allowed before. Thread-safe, as all of an artifact.
  virtual void allow(const Allowance& allowance) const = 0;
  /// What it keeps elsewhere than in that memory, for who watches; empty: nothing.
  virtual std::string kept_elsewhere() const { return ""; }
};

}  // namespace runner

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// The `device` section of a recipe: where it is to compute, and what to do where that is taken.
struct DeviceWish {
  std::string select = "cpu";             ///< "auto", "cpu", "cuda" or "cuda:K"
  std::vector<std::string> exclude = {};  ///< indices among the visible GPUs, and UUIDs
  std::optional<std::int64_t> need = {};  ///< bytes that must be free; nullopt: what the run's plan says
  bool wait = false;                      ///< for a device to be free
  std::chrono::duration<double> timeout{}, interval{};
  std::vector<std::string> fallback = {};  ///< of "gpu" and "cpu", in order
  /// The UUID of the device that a resumed run has computed on: taken before others that have room as well. Or empty.
  std::string preferred = {};
  std::vector<std::string> left = {};  ///< UUIDs of those that the run has left since their memory ran out: never taken

  bool may_fall_back_to(std::string_view where) const;
  /// The K of "cuda:K".
  std::optional<int> index() const;
  bool is_gpu() const { return select != "cpu"; }
};

/// That of a run which cannot go on on the GPUs `left`, for another one: as `wish`, whatever device that names.
DeviceWish wish_for_another(DeviceWish wish, std::vector<std::string> left);

/// That of a recipe with its defaults filled in, as a schema has checked it.
DeviceWish device_wish(const Value& recipe);

}  // namespace runner

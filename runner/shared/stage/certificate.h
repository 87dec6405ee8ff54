#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {

/// How far a way of computing a gradient is from computing the whole batch at once, in float64 on small shapes.
struct Certificate {
  /// Below it two gradients are equal in exact arithmetic: what is equal stays under 1e-14, what is not is above 1e-3.
  static constexpr double kLimit = 1e-12;

  struct Parameter {
    std::string name;
    double relative_error = 0;  ///< |g - reference| / |reference| (L2), the latter a thousandth of the whole at least
    bool operator==(const Parameter&) const = default;
  };

  std::string node;
  std::string compared;               ///< "micro_batch 3, activation_checkpointing block against the whole batch of 8"
  std::vector<Parameter> parameters;  ///< all that are trained, in the network's order
  std::vector<std::string> changed;   ///< what differs besides the gradient: "buffer running_mean"; none is good
  std::string refused;                ///< why nothing was computed; empty: it was

  /// The largest error; NaN where one is no number.
  double worst() const {
    double worst = 0;
    for (const auto& [name, error] : parameters) {
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
    return worst;
  }
  bool holds() const { return refused.empty() && changed.empty() && !parameters.empty() && worst() < kLimit; }
  bool operator==(const Certificate&) const = default;
};

nlohmann::ordered_json to_json(const Certificate& certificate);
/// The same back. Throws std::runtime_error for what to_json() has not made.
Certificate certificate_from_json(const nlohmann::ordered_json& json);

}  // namespace runner

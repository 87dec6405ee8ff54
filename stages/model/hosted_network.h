#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/attached_lora.h"
#include "stages/python/python_network.h"

namespace stages {

/// A PythonNetwork that can have adapters. Modules are selected by their Python names.
class HostedNetwork : public PythonNetwork {
 public:
  /// `description` is how a recipe describes the network: {"entry", "arguments"}, without secrets.
  HostedNetwork(const nlohmann::ordered_json& request, bool draws,
                nlohmann::ordered_json description);
  const nlohmann::ordered_json& description() const { return *description_; }

  /// Attaches adapters. Throws runner::StageError like attach_lora().
  void attach(const LoraOptions& options, std::uint64_t seed);
  const std::optional<AttachedLora>& lora() const { return lora_; }
  /// Throws runner::StageError if the last forward pass did not call a layer that has an adapter,
  /// for example because the network used the layer's weight directly.
  void check_adapters() const;

 private:
  const std::shared_ptr<const nlohmann::ordered_json> description_;
  std::optional<AttachedLora> lora_;
};

}  // namespace stages

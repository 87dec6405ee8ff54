#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/attached_lora.h"
#include "stages/python/python_network.h"

namespace stages {

/// A PythonNetwork with adapters, if it was asked to have any. Modules are selected by Python's
/// names.
class HostedNetwork : public PythonNetwork {
 public:
  /// How a recipe describes it: {"entry", "arguments"}, without secrets.
  HostedNetwork(const nlohmann::ordered_json& request, bool draws,
                nlohmann::ordered_json description);
  const nlohmann::ordered_json& description() const { return *description_; }

  /// Throws runner::StageError as attach_lora().
  void attach(const LoraOptions& options, std::uint64_t seed);
  const std::optional<AttachedLora>& lora() const { return lora_; }
  /// Throws runner::StageError if the forward pass that has ended left out a layer with an adapter:
  /// the network used its weight by itself.
  void check_adapters() const;

 private:
  const std::shared_ptr<const nlohmann::ordered_json> description_;
  std::optional<AttachedLora> lora_;
};

}  // namespace stages

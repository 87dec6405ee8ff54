#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  /// Loads the adapter in `folder`, in peft's format and with Python's names, into the attached
  /// adapters. Returns notes on what was loaded. Throws runner::StageError at the `adapter` option
  /// if the adapter does not match the network; in that case nothing is changed.
  std::vector<std::string> begin_from_adapter(const std::string& folder);
  /// Writes the adapters into `folder` in peft's format, with Python's names.
  void save_adapter_to(const std::filesystem::path& folder) const;
  /// Throws runner::StageError if the last forward pass did not call a layer that has an adapter,
  /// for example because the network used the layer's weight directly.
  void check_adapters() const;

 private:
  const std::shared_ptr<const nlohmann::ordered_json> description_;
  std::optional<AttachedLora> lora_;
};

}  // namespace stages

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stages/model/attached_lora.h"
#include "stages/model/clip_network.h"
#include "stages/model/frozen_base.h"

namespace stages {

/// The options of model.clip's section adapters.
struct ClipAdapterConfig {
  std::string pointer;  ///< where they stand, "/model/adapters"
  LoraOptions options;
  std::optional<std::string> adapter;  ///< a folder of peft's form to begin from; nullopt: a new adapter
};

/// A CLIP whose weights are given and frozen, but for low-rank adapters in its towers and the class head.
class AdaptedClip : public ClipNetwork, public FrozenBase {
 public:
  /// Its weights are unset but for those of the adapters, which follow from `seed`; none where they are on the Meta
  /// device. Exactly those that are trained need a gradient. Throws runner::StageError, which blames an option of
  /// `config`, where its targets are no layers of the towers.
  AdaptedClip(const ClipOptions& clip, const ClipAdapterConfig& config, std::uint64_t seed,
              const at::TensorOptions& options = {});

  /// Says in the notes what of `config` has no effect, and begins from the adapter that it names. Throws
  /// runner::StageError where that does not fit.
  void begin(const ClipAdapterConfig& config);
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  const AttachedLora& lora() const { return lora_; }

  std::optional<std::string> weights_reference;  ///< of its base; nullopt: random

 private:
  AttachedLora lora_;
};

}  // namespace stages

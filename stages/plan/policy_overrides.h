#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/memory/policy.h"

namespace stages {

/// A logical batch, and where the recipe says that it is cut.
struct CutBatch {
  std::int64_t size;            ///< that the recipe asks for
  std::int64_t units;           ///< that there are at most: the data may have fewer
  std::string accumulated_by;   ///< as TrainerOptions has it
  bool has_loss_forms = false;  ///< a term of its loss can be written in several ways
};

/// "memory.micro_batch": an option of the stage at `stage`, a place in the recipe such as "/memory".
std::string option_of(const std::string& stage, const std::string& name);

/// "none", "block" or "[model.a,model.b]", as a recipe writes it.
std::string option_text(const ActivationCheckpointing& checkpointing);

/// What changes a recipe that asks for `from` so that it asks for `to`, as far as micro_batch, two_pass,
/// activation_checkpointing, offload, optimizer_in_backward and precision differ. gradient_accumulation_steps, beside
/// which a micro_batch is refused, gives way to one.
std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to, const CutBatch& batch);

}  // namespace stages

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {

/// A number of bytes, and what takes them.
struct NamedBytes {
  std::string name;
  std::int64_t bytes = 0;
  std::string note = {};  ///< where the number is from, or why it is 0; may be empty
  bool operator==(const NamedBytes&) const = default;
};

/// A tensor that is alive at the peak.
struct AliveTensor {
  std::string owner;  ///< as in MemoryPlan::owners
  std::string
      name;  ///< of a parameter, gradient or input: its own; of an activation: the module's path
  std::string operation;  ///< that made it, "aten::linear"; may be empty
  std::vector<std::int64_t> shape;
  std::string dtype;  ///< "float32"
  std::int64_t bytes = 0;
  bool operator==(const AliveTensor&) const = default;
};

/// Where on the curve of live bytes a phase begins.
struct PhaseMark {
  std::string
      phase;  ///< "forward", "loss", "backward", "unscale", "clip", "optimizer", "evaluate", …
  std::size_t point = 0;  ///< index into MemoryPlan::curve
  bool operator==(const PhaseMark&) const = default;
};

/// Another way of computing the same.
struct PlanAlternative {
  std::vector<std::string> overrides;  ///< that make it, "memory.micro_batch=8"
  std::string exactness;               ///< "bit", "exact" or "declared"
  std::int64_t predicted = 0;          ///< bytes, as MemoryPlan::predicted
  double relative_flops = 1;           ///< of a step, by those of the plan
  std::string refused = {};            ///< why it is not possible; empty: it is
  double relative_operations =
      1;  ///< started in a step, by those of the plan: each takes a time of its own
  bool operator==(const PlanAlternative&) const = default;
};

/// What a plan has chosen by itself, where the recipe allows that.
struct PlanChoice {
  std::vector<std::string>
      overrides;  ///< that ask for the same; empty: the whole batch at once, nothing recomputed
  std::string exactness;   ///< "bit" or "exact"
  std::string summary;     ///< "micro_batch 26 (5 parts), 3 of 12 blocks recomputed"
  std::int64_t whole = 0;  ///< bytes that the whole batch at once would need
  double relative_time =
      1;  ///< of a step, as the time model has it, by that of the whole batch at once
  std::string time_model;    ///< its version
  bool is_replayed = false;  ///< it was chosen when the run first started
  bool operator==(const PlanChoice&) const = default;
};

/// What an option that the recipe sets does to the peak.
struct OptionEffect {
  std::string option;      ///< as in the recipe, "memory.empty_cache_every"
  std::string value;       ///< "50"
  std::int64_t bytes = 0;  ///< by which the peak is lower for it; negative: higher
  std::string note = {};   ///< "it returns unused blocks, and lowers no peak"
  bool operator==(const OptionEffect&) const = default;
};

/// The term of what artifacts may keep in the memory that plans leave.
inline constexpr std::string_view kCacheTerm = "cache";

/// The result of a node's dry run: the memory that it needs at its peak, its owners, and the
/// alternatives. All sizes are bytes. It is recorded as nodes/<id>/plan.json.
struct MemoryPlan {
  std::string node;
  std::string device;          ///< "cpu", "cuda:0", or the name of a device that is not here
  int threads = 0;             ///< the CPU's, which its kernels' temporaries grow with
  std::int64_t live = 0;       ///< the most that tensors take at once
  std::int64_t reserved = 0;   ///< the most that the allocator takes for them
  std::int64_t predicted = 0;  ///< reserved, the terms besides the allocator's, and what is held
  std::optional<std::int64_t> budget;  ///< that it is compared with; nullopt: none is known
  std::string budget_from;             ///< "memory.budget", "--budget", "the machine's memory", …
  bool must_fit = true;  ///< false: it runs all the same, as memory.on_oom_policy: legacy has it
  std::string peak_phase, peak_operation;
  std::vector<NamedBytes>
      owners;  ///< of what is live at the peak: parameter, gradient, optimizer_state, …
  std::vector<NamedBytes>
      terms;  ///< of `predicted`, by name; a note tells which are parts of `live` or `reserved`
  std::string terms_version;  ///< of these
  std::vector<NamedBytes>
      held;  ///< what earlier nodes have put out and keep meanwhile: "train.1.checkpoint"
  std::vector<AliveTensor> largest;  ///< the ten largest that are alive at the peak
  std::vector<std::int64_t>
      curve;  ///< live bytes over a step, evenly thinned out; the peak is among them
  std::vector<PhaseMark> phases;
  std::vector<OptionEffect> options;
  std::vector<PlanAlternative> alternatives;  ///< that were considered, cheapest first
  double flops = 0;                           ///< of one step
  std::int64_t operations = 0;                ///< that are started in one step; 0: unknown
  double traffic = 0;                         ///< bytes that are written in one step; 0: unknown
  double moved = 0;  ///< bytes that one step copies between the host and a GPU
  nlohmann::ordered_json
      step;  ///< how a batch is computed: {"micro_batch", "two_pass", "precision", …}
  std::optional<PlanChoice> choice;  ///< nullopt: the recipe says it all
  std::string reuse;  ///< "hit", "miss: data.image_size was 56 and is now 70"; empty: nothing of it
                      ///< is reused

  std::int64_t held_bytes() const;
  bool fits() const { return !budget || predicted <= *budget; }
  bool may_run() const { return fits() || !must_fit; }
  bool operator==(const MemoryPlan&) const = default;
};

nlohmann::ordered_json to_json(const MemoryPlan& plan);
/// The same back. Throws std::runtime_error for what to_json() has not made.
MemoryPlan memory_plan_from_json(const nlohmann::ordered_json& json);

/// {"node", "predicted", "held"}: of the node where a run needs the most, and how much of that
/// others hold.
nlohmann::ordered_json run_peak(const MemoryPlan& plan);

/// "chosen: micro_batch 26 (5 parts): 1.9 GiB instead of 6.4 GiB, in about 2 % more time (exact)".
std::string choice_text(const MemoryPlan& plan);

/// "12.0 MiB of it held by earlier nodes".
std::string held_text(const MemoryPlan& plan);

/// "memory.micro_batch=8 memory.two_pass=on"; "as it is" for none.
std::string override_text(const std::vector<std::string>& overrides);

/// "(105, 64, 112, 112)".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// "layer1.0.conv1 (105, 64, 112, 112) float32, 321.6 MiB"; of what has no name, its owner.
std::string tensor_text(const AliveTensor& tensor);

}  // namespace runner

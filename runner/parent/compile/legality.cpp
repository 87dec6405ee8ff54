#include "runner/parent/compile/legality.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/family.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kCouplingNames = {"per_sample", "per_group",
                                                            "whole_batch"};

std::optional<LossCoupling> coupling_named(const Json& json) {
  const auto found =
      std::ranges::find_if(kCouplingNames, [&](std::string_view name) { return json == name; });
  if (found == kCouplingNames.end()) return std::nullopt;
  return static_cast<LossCoupling>(found - kCouplingNames.begin());
}

/// Searches for x-coupling in `schema`, which describes `value`, and in its subschemas. Stores the
/// strongest coupling in `most`.
void look(const SchemaSet& schemas, const Json& schema, const Value& value,
          std::optional<LossCoupling>& most) {
  if (!schema.is_object()) return;
  if (const auto declared = schema.find("x-coupling"); declared != schema.end()) {
    const Json choice = value.reveal() && declared->is_object()
                            ? declared->value(*value.reveal(), Json())
                            : *declared;
    if (const auto coupling = coupling_named(choice))
      most = most ? std::max(*most, *coupling) : *coupling;
  }
  if (!value.map()) return;
  if (const std::string folder = schema.value("x-kinds", "*"); folder != "*") {
    const Value* kind = value.find("kind");
    const std::string name =
        kind && kind->text() ? *kind->text() : schema.value("x-default-kind", "");
    if (const Json* document = schemas.document(folder + "/" + name))
      look(schemas, *document, value, most);
  }
  const auto properties = schema.find("properties");
  if (properties == schema.end()) return;
  for (const Entry& entry : *value.map()) {
    if (const auto property = properties->find(entry.key); property != properties->end())
      look(schemas, *property, entry.value, most);
  }
}

const std::int64_t* number(const Node& node, std::string_view option) {
  const Value* value = node.options.find(option);
  return value ? std::get_if<std::int64_t>(&value->data) : nullptr;
}

/// Returns the node that provides the artifact of this type wired to `node`; null if there is none.
const Node* source(const Graph& graph, const Node& node, ArtifactType type) {
  const auto edge = std::ranges::find(node.inputs, type, &Edge::type);
  return edge == node.inputs.end() ? nullptr : &graph.nodes[edge->from];
}

enum class TwoPass { kOff, kOn, kAuto };

/// Reads two_pass. YAML reads `on` and `off` without quotes as true and false.
TwoPass two_pass(const Node& memory) {
  const Value* value = memory.options.find("two_pass");
  if (!value) return TwoPass::kOff;
  if (const bool* flag = std::get_if<bool>(&value->data))
    return *flag ? TwoPass::kOn : TwoPass::kOff;
  if (value->says("auto")) return TwoPass::kAuto;
  return value->says("on") || value->says("always") ? TwoPass::kOn : TwoPass::kOff;
}

bool steps_in_backward(const Node& memory) {
  const Value* value = memory.options.find("optimizer_in_backward");
  const bool* flag = value ? std::get_if<bool>(&value->data) : nullptr;
  return flag && *flag;
}

/// True if the precision `name` is used everywhere or in some part of a network.
bool uses_precision(const Node& memory, std::string_view name) {
  const Value* value = memory.options.find("precision");
  if (!value || value->text()) return value && value->says(name);
  return value->map() && std::ranges::any_of(*value->map(), [&](const Entry& entry) {
           return entry.value.says(name);
         });
}

/// Checks the training stages of one graph.
class Legality {
 public:
  Legality(const Graph& graph, const SchemaSet& schemas) : graph_(graph), schemas_(schemas) {}

  Diagnostics run() {
    for (const Node& node : graph_.nodes) {
      const Node* memory = source(graph_, node, ArtifactType::kMemoryPolicy);
      if (memory && family_of(node.kind) == Family::kTrain) check(node, *memory);
    }
    return std::move(errors_);
  }

 private:
  void check(const Node& train, const Node& memory) {
    const Node* model = source(graph_, train, ArtifactType::kModel);
    const bool mixes = model && declared_mixing(schemas_, model->kind);
    const std::string layers =
        mixes ? "layers of '" + model->stage + "' mix the samples of a batch (BatchNorm)" : "";
    const LossCoupling coupling =
        declared_coupling(schemas_, train.kind, train.options).value_or(LossCoupling::kPerSample);
    if (mixes && two_pass(memory) == TwoPass::kOn) {
      add(memory, "two_pass",
          "two_pass would split each batch of '" + train.stage + "', but " + layers +
              ": the gradient would differ",
          "set two_pass: off; activation_checkpointing: block saves memory and gives the same "
          "result bit for bit");
    }
    const std::int64_t* micro_batch = number(memory, "micro_batch");
    const std::int64_t* batch_size = number(train, "batch_size");
    if (!batch_size) batch_size = number(train, "episodes_per_step");
    const std::int64_t* accumulated = number(train, "gradient_accumulation_steps");
    const std::int64_t batch = (batch_size ? *batch_size : 0) * (accumulated ? *accumulated : 1);
    const bool is_cut = micro_batch && *micro_batch < batch;
    const std::string whole = "the batch of " + std::to_string(batch) + " in '" + train.stage + "'";
    const std::string part = micro_batch ? "micro_batch " + std::to_string(*micro_batch) : "";
    const std::string cut = part + " would split " + whole + ", but ";
    if (batch_size && *batch_size < least_samples(coupling, mixes)) {
      add(train, "batch_size",
          "batch_size " + std::to_string(*batch_size) + " gives '" + train.stage +
              "' one sample at a time, but " + layers + " and need at least two",
          "set batch_size: 2 or more");
    }
    if (batch_size && batch == 1 && coupling == LossCoupling::kWholeBatch) {
      add(train, "batch_size",
          "with a batch of 1, the loss of '" + train.stage +
              "' has nothing to compare the sample with and is always 0",
          "set batch_size: 2 or more");
    }
    if (batch_size && micro_batch && *micro_batch > batch) {
      add(memory, "micro_batch", part + " is larger than " + whole + ": it would split nothing",
          "set micro_batch: auto, or at most " + std::to_string(batch));
    }
    const bool needs_whole = is_cut_loss(coupling, two_pass(memory) != TwoPass::kOff);
    constexpr auto kWhole = "its loss depends on the whole batch at once";
    constexpr auto kTwoPass =
        "set memory.two_pass=on, which does not change the gradient, or leave the batch whole";
    if (is_cut && needs_whole) add(memory, "micro_batch", cut + kWhole, kTwoPass);
    if (is_cut && are_cut_layers(coupling, mixes)) {
      add(memory, "micro_batch", cut + layers + ": the gradient would differ",
          "set micro_batch: auto; activation_checkpointing: block saves memory and gives the same "
          "result bit for bit");
    }
    if (accumulated && *accumulated > 1 && needs_whole) {
      add(train, "gradient_accumulation_steps",
          "gradient_accumulation_steps " + std::to_string(*accumulated) +
              " accumulates the batch of " + std::to_string(batch) + " from smaller ones, but " +
              kWhole,
          kTwoPass);
    }
    if (steps_in_backward(memory))
      check_in_backward(train, memory, is_cut || (accumulated && *accumulated > 1));
  }

  /// Checks optimizer_in_backward: an update during the backward pass waits only for the gradient
  /// of its own weight.
  void check_in_backward(const Node& train, const Node& memory, bool is_in_parts) {
    const auto refuse = [&](const std::string& why, const std::string& help) {
      add(memory, "optimizer_in_backward",
          "optimizer_in_backward updates each weight as soon as its own gradient is ready, but " +
              why,
          help);
    };
    if (is_in_parts) {
      refuse("the batch of '" + train.stage +
                 "' is split, and its micro-batches' gradients must be summed first",
             "set optimizer_in_backward: false, or leave the batch whole");
    }
    const Value* clip = train.options.find("gradient_clip_norm");
    if (clip && !clip->is_null()) {
      refuse("gradient_clip_norm of '" + train.stage + "' needs the norm of all gradients together",
             "set optimizer_in_backward: false, or gradient_clip_norm: null");
    }
    if (uses_precision(memory, "fp16")) {
      refuse(
          "fp16 skips a step if its gradients overflow, which is known only once all gradients are "
          "ready",
          "set precision: bf16, or optimizer_in_backward: false");
    }
  }

  /// Adds an error, but only once for all nodes of a foreach.
  void add(const Node& node, std::string_view option, std::string message, std::string help) {
    const std::string pointer = pointer_to(node.pointer, option);
    if (!seen_.insert(pointer + message).second) return;
    errors_.push_back({ErrorCode::kOptionConflict, node.options.find(option)->where, pointer,
                       std::move(message), std::move(help)});
  }

  const Graph& graph_;
  const SchemaSet& schemas_;
  std::set<std::string> seen_;
  Diagnostics errors_;
};

}  // namespace

std::string_view name(LossCoupling coupling) {
  return kCouplingNames[static_cast<std::size_t>(coupling)];
}

std::optional<LossCoupling> declared_coupling(const SchemaSet& schemas, std::string_view kind,
                                              const Value& options) {
  std::optional<LossCoupling> most;
  if (const Json* document = schemas.document(kind)) look(schemas, *document, options, most);
  return most;
}

bool declared_mixing(const SchemaSet& schemas, std::string_view kind) {
  const Json* document = schemas.document(kind);
  return document && document->value("x-mixes-samples", false);
}

Diagnostics illegal_batch_options(const Graph& graph, const SchemaSet& schemas) {
  return Legality(graph, schemas).run();
}

}  // namespace runner

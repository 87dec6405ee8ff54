#pragma once

#include <optional>
#include <string_view>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/batch_cut.h"

namespace runner {

/// Returns "per_sample", "per_group" or "whole_batch", the values of `x-coupling` in the schemas.
std::string_view name(LossCoupling coupling);

/// Returns the loss coupling of a training stage of `kind` ("train.contrastive") with `options`:
/// the strongest one declared by the kind, by the kinds of its sub-mappings or by the values of its
/// options. nullopt if none is declared.
std::optional<LossCoupling> declared_coupling(const SchemaSet& schemas, std::string_view kind,
                                              const Value& options);

/// True if layers of the model `kind` mix the samples of a batch in training, as BatchNorm does
/// (x-mixes-samples).
bool declared_mixing(const SchemaSet& schemas, std::string_view kind);

/// Returns an error, with the reason, for each option that would make the gradient of a training
/// stage in `graph` differ from the gradient of the whole batch: a split that its loss or its
/// model's layers do not allow, two passes through layers that mix samples, or
/// optimizer_in_backward where an update needs all gradients. Also reports micro-batches that would
/// split nothing, and one-sample batches if the loss or the layers need more than one sample.
/// Options left to the planner are not reported.
Diagnostics illegal_batch_options(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner

#pragma once

#include <optional>
#include <string_view>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/batch_cut.h"

namespace runner {

/// "per_sample", "per_group" or "whole_batch", as schemas say it by x-coupling.
std::string_view name(LossCoupling coupling);

/// What the loss of a training of `kind` ("train.contrastive") with `options` sees: the most of
/// what is declared by the kind, by the kinds of its sub-mappings and by its options' values.
/// nullopt: nothing is declared.
std::optional<LossCoupling> declared_coupling(const SchemaSet& schemas, std::string_view kind,
                                              const Value& options);

/// Do layers of the model `kind` see other samples of the batch in training, as train-mode
/// BatchNorm does: x-mixes-samples?
bool declared_mixing(const SchemaSet& schemas, std::string_view kind);

/// The options by which a training of `graph` would follow another gradient than that of its whole
/// batch, each at its place with the reason: a cut that its loss or its model's layers do not
/// allow, or two passes through layers that mix samples; a micro-batch that would cut nothing; and
/// a batch of one sample where loss or layers need another. What is left to the planner is none.
Diagnostics illegal_batch_options(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner

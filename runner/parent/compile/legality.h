#pragma once

#include <optional>
#include <string_view>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/batch_cut.h"

namespace runner {

/// "per_sample", "per_group" or "whole_batch", as in x-coupling of schemas.
std::string_view name(LossCoupling coupling);

/// The coupling of the loss of a training of `kind` ("train.contrastive") with `options`: the
/// strongest that is declared by the kind, by the kinds of its sub-mappings or by the values of its
/// options. nullopt: none is declared.
std::optional<LossCoupling> declared_coupling(const SchemaSet& schemas, std::string_view kind,
                                              const Value& options);

/// True if layers of the model `kind` see other samples of the batch in training, like BatchNorm in
/// training mode: x-mixes-samples.
bool declared_mixing(const SchemaSet& schemas, std::string_view kind);

/// The options that would make a training of `graph` follow another gradient than that of its whole
/// batch, each at its place with the reason: a split that its loss or its model's layers do not
/// allow, or two passes through layers that mix samples. Also a micro-batch that would split
/// nothing, and a batch of one sample if loss or layers need more. Options left to the planner are
/// not reported.
Diagnostics illegal_batch_options(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner

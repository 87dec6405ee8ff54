#pragma once

#include "runner/arguments.h"
#include "runner/config/compose.h"
#include "runner/graph/graph.h"
#include "runner/graph/recipe.h"
#include "runner/schema/schema.h"

namespace runner {

/// The schemas built into this program. They are checked by a test, so they load.
SchemaSet shipped_schemas();

/// Where recipes are looked for, nearest first: the working directory, each --config-dir, what is shipped.
std::vector<std::filesystem::path> search_path(const Arguments& arguments);

/// Composes the recipe that the command line names; with --strict every warning is an error.
Result<Composition> compose(const Arguments& arguments, const SchemaSet& schemas, Sources& sources);

/// A recipe on its way from text to run: composed, validated, compiled.
struct Prepared {
  Composition composition;
  Recipe recipe;
  Graph graph;
};
Result<Prepared> prepare(const Arguments& arguments, const SchemaSet& schemas, Sources& sources);

}  // namespace runner

#include "runner/cli/trained_request.h"

#include "runner/cli/prepare.h"
#include "runner/protocol/event.h"
#include "runner/record/recorded_run.h"
#include "runner/record/trained_run.h"

namespace runner {

Result<TrainedRequest> trained_request(std::string_view name, const Arguments& arguments,
                                       const std::vector<std::string>& overrides) {
  const auto run = read_run(arguments.run_folder);
  if (!run) return run.errors();
  Sources sources;
  const SchemaSet schemas = shipped_schemas();
  const auto before = prepare_recorded(run->recipe, {}, schemas, sources);
  if (!before) return before.errors();
  const auto prepared = prepare_recorded(run->recipe, overrides, schemas, sources);
  if (!prepared) return prepared.errors();
  const auto trained = find_trained_nodes(*run, prepared->graph, arguments.checkpoint);
  if (!trained) return trained.errors();
  const auto node = choose_trained_node(*trained, arguments.node);
  if (!node) return node.errors();
  auto graph = only_without_data(prepared->graph, *node);
  if (!graph) return graph.errors();
  if (graph->threads == before->graph.threads) graph->threads = run->threads;
  if (graph->device == before->graph.device) graph->device = run->device;
  return TrainedRequest{{{"protocol", kProtocolVersion},
                         {"request", name},
                         {"graph", to_json(*graph)},
                         {"node", *node},
                         {"checkpoints", to_json(*trained)}},
                        prepared->recipe.resolved};
}

Diagnostics placed(Diagnostics errors, const Value& recipe) {
  for (Diagnostic& error : errors) {
    if (!error.pointer.empty()) error.where = nearest(recipe, error.pointer).where;
  }
  return errors;
}

}  // namespace runner

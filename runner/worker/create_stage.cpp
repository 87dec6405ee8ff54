#include "runner/worker/create_stage.h"

#include <algorithm>

#include "runner/shared/stage/config_reader.h"
#include "runner/worker/node_context.h"

namespace runner {

Result<std::unique_ptr<Stage>> create_stage(const Node& node,
                                            std::span<const StageKind* const> kinds) {
  const auto kind = std::ranges::find(kinds, node.kind, &StageKind::name);
  if (kind == kinds.end()) {
    return Diagnostic{ErrorCode::kUnavailableKind,
                      {},
                      pointer_to(node.pointer, "kind"),
                      "this worker cannot run stages of kind '" + node.kind + "'",
                      "`retort stages` lists the kinds and shows which can run"};
  }
  ConfigReader reader(node.options, node.pointer);
  try {
    auto stage = (*kind)->create(reader);
    if (!stage) return stage;
    // This also reports options that the stage never read.
    if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return stage;
  } catch (...) {
    return stage_failure(node);
  }
}

}  // namespace runner

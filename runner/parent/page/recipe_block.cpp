#include "runner/parent/page/recipe_block.h"

#include <nlohmann/json.hpp>

#include "runner/parent/config/provenance.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

CodeBlock recipe_block(const RunDetails& details) {
  constexpr std::size_t kLargest = 16 << 20;
  const auto text =
      real_file_system().read(details.run.recipe.parent_path() / RunRecord::kOrigins, kLargest);
  const auto origins =
      text ? parse_json<nlohmann::ordered_json>(*text) : nlohmann::ordered_json::object();
  return {.caption = "The recipe with all defaults, and where each value comes from",
          .text = yaml_with_origins(details.recipe, origins),
          .is_folded = true};
}

}  // namespace runner

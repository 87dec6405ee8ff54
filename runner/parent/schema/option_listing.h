#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// An option as a kind declares it.
struct Option {
  std::string key;  ///< in a recipe: "train.optimizer.learning_rate", a stage named as its family;
                    ///< of what a list holds "train.parameter_groups.match", without a number
  std::string
      stage;  ///< the kind of stage it stands in, "train.supervised"; empty: of the whole run
  std::string owner;  ///< the kind that declares it: "train/optimizer/adamw", or the stage's;
                      ///< empty: of the whole run
  std::string takes;  ///< "an integer of at least 1 (epochs)"
  std::string unit;   ///< empty: none
  std::optional<Value> fallback;  ///< its default
  std::string help;
  bool required = false;
};

/// "an integer of at least 1 (epochs)".
std::string takes_phrase(const Option& option);

/// Its default as a recipe would hold it; empty: it has none.
std::string default_text(const Option& option);

/// Every option that the schemas declare, in their order: those of the whole run, then of each kind
/// of stage.
std::vector<Option> all_options(const SchemaSet& schemas);

/// The options of one kind, by keys as they stand in its mapping: of "train.supervised" or
/// "train/optimizer/adamw".
std::vector<Option> options_of(const SchemaSet& schemas, std::string_view kind);

/// The ports of a kind, a line for its inputs and one for its outputs, where it has any.
std::string ports_text(const Kind& kind, const std::string& margin);

/// {"name", "family", "summary", "version", "inputs": [...], "outputs": [...], "cacheable"}.
nlohmann::ordered_json kind_json(const Kind& kind);

/// What `retort stages` prints: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The same for `--json`: {"kinds": [{"name", "family", "summary", "version", "inputs": [{"name",
/// "type", "optional", "many"}], "outputs": [{"name", "type"}], "cacheable"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

/// What `retort stages --format md` prints: every kind and option as Markdown, one section for each
/// family
/// ("# recipe" holds the options of a whole recipe, "# sweep" what starts the trials of a sweep).
std::string kinds_markdown(const SchemaSet& schemas);

}  // namespace runner

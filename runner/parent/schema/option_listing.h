#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// An option that a kind declares.
struct Option {
  std::string key;  ///< in a recipe: "train.optimizer.learning_rate", with the stage named like its
                    ///< family; for items of a list "train.parameter_groups.match", without a
                    ///< number
  std::string stage;  ///< the kind of its stage, "train.supervised"; empty: for the whole run
  std::string owner;  ///< the kind that declares it: "train/optimizer/adamw", or the stage's;
                      ///< empty: for the whole run
  std::string takes;  ///< "an integer of at least 1 (epochs)"
  std::string unit;   ///< empty: none
  std::optional<Value> fallback;  ///< its default
  std::string help;
  bool required = false;
};

/// "an integer of at least 1 (epochs)".
std::string takes_phrase(const Option& option);

/// Its default as a recipe would contain it; empty: it has none.
std::string default_text(const Option& option);

/// Every option that the schemas declare, in their order: those of the whole run, then those of
/// each kind of stage.
std::vector<Option> all_options(const SchemaSet& schemas);

/// The options of one kind, "train.supervised" or "train/optimizer/adamw", with keys relative to
/// its mapping.
std::vector<Option> options_of(const SchemaSet& schemas, std::string_view kind);

/// The ports of a kind: one line for its inputs and one for its outputs, if it has any.
std::string ports_text(const Kind& kind, const std::string& margin);

/// {"name", "family", "summary", "version", "inputs": [...], "outputs": [...], "cacheable"}.
nlohmann::ordered_json kind_json(const Kind& kind);

/// The output of `retort stages`: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The same for `--json`: {"kinds": [{"name", "family", "summary", "version", "inputs": [{"name",
/// "type", "optional", "many"}], "outputs": [{"name", "type"}], "cacheable"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

/// The output of `retort stages --format md`: every kind and option as Markdown, one section for
/// each family ("# recipe" holds the options of a whole recipe, "# sweep" those that start the
/// trials of a sweep).
std::string kinds_markdown(const SchemaSet& schemas);

}  // namespace runner

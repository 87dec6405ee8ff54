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
  /// The key in a recipe, with the stage named like its family: "train.optimizer.learning_rate".
  /// For items of a list it has no index: "train.parameter_groups.match".
  std::string key;
  /// The kind of its stage, "train.supervised"; empty for an option of the whole run.
  std::string stage;
  /// The kind that declares it, "train/optimizer/adamw" or the kind of the stage; empty for an
  /// option of the whole run.
  std::string owner;
  std::string takes;              ///< "an integer of at least 1 (epochs)"
  std::string unit;               ///< empty if there is none
  std::optional<Value> fallback;  ///< the default; nullopt if there is none
  std::string help;
  bool required = false;
};

/// The values that the option accepts, with their unit: "an integer of at least 1 (epochs)".
std::string takes_phrase(const Option& option);

/// The default of the option as a recipe would contain it; empty if there is none.
std::string default_text(const Option& option);

/// Returns every option that the schemas declare, in their order: first the options of the whole
/// run, then those of each kind of stage.
std::vector<Option> all_options(const SchemaSet& schemas);

/// Returns the options of one kind, "train.supervised" or "train/optimizer/adamw", with keys
/// relative to its mapping.
std::vector<Option> options_of(const SchemaSet& schemas, std::string_view kind);

/// The ports of a kind: one line for its inputs and one for its outputs, if it has any.
std::string ports_text(const Kind& kind, const std::string& margin);

/// Returns the kind as JSON: {"name", "family", "summary", "version", "inputs": [...], "outputs":
/// [...], "cacheable"}.
nlohmann::ordered_json kind_json(const Kind& kind);

/// The output of `retort stages`: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// The output of `retort stages --json`: {"kinds": [{"name", "family", "summary", "version",
/// "inputs": [{"name", "type", "optional", "many"}], "outputs": [{"name", "type"}], "cacheable"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

/// The output of `retort stages --format md`: every kind and option as Markdown, with one section
/// for each family. "# recipe" lists the options of a whole recipe, and "# sweep" the options for
/// starting the trials of a sweep.
std::string kinds_markdown(const SchemaSet& schemas);

}  // namespace runner

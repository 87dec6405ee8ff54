#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// An option declared by a kind.
struct Option {
  /// The key in a recipe, with the stage named after its family: "train.optimizer.learning_rate".
  /// For list items, it has no index: "train.parameter_groups.match".
  std::string key;
  /// The kind of its stage, "train.supervised"; empty for an option that applies to the whole run.
  std::string stage;
  /// The kind that declares it, "train/optimizer/adamw" or the stage's kind; empty for an option
  /// that applies to the whole run.
  std::string owner;
  std::string takes;              ///< "an integer of at least 1 (epochs)"
  std::string unit;               ///< empty if there is none
  std::optional<Value> fallback;  ///< the default; nullopt if there is none
  std::string help;
  bool required = false;
};

/// Returns the values accepted by the option, with their unit: "an integer of at least 1 (epochs)".
std::string takes_phrase(const Option& option);

/// Returns the option's default, as it would be written in a recipe; empty if there is none.
std::string default_text(const Option& option);

/// Returns every option declared by the schemas, in their order: first the options for the whole
/// run, then those of each kind of stage.
std::vector<Option> all_options(const SchemaSet& schemas);

/// Returns the options of one kind, "train.supervised" or "train/optimizer/adamw", with keys
/// relative to its mapping.
std::vector<Option> options_of(const SchemaSet& schemas, std::string_view kind);

/// Returns the ports of a kind: one line for its inputs and one for its outputs, if any.
std::string ports_text(const Kind& kind, const std::string& margin);

/// Returns the kind as JSON: {"name", "family", "summary", "version", "inputs": [...], "outputs":
/// [...], "cacheable"}.
nlohmann::ordered_json kind_json(const Kind& kind);

/// Returns the output of `retort stages`: every kind with its summary and ports, grouped by family.
std::string stages_text(const SchemaSet& schemas);

/// Returns the output of `retort stages --json`: {"kinds": [{"name", "family", "summary",
/// "version", "inputs": [{"name", "type", "optional", "many"}], "outputs": [{"name", "type"}],
/// "cacheable"}]}.
nlohmann::ordered_json stages_json(const SchemaSet& schemas);

/// Returns the output of `retort stages --format md`: every kind and option as Markdown, with one
/// section per family. "# recipe" lists the options of a whole recipe, and "# sweep" the options
/// for starting the trials of a sweep.
std::string kinds_markdown(const SchemaSet& schemas);

}  // namespace runner

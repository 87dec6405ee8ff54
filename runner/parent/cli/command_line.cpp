#include "runner/parent/cli/command_line.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>

#include "runner/parent/config/override.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/secret_name.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

/// A parameter and its CLI11 option.
struct Binding {
  const CLI::Option* option;
  const Parameter* parameter;
};

CLI::Option* add(CLI::App& app, const Parameter& parameter) {
  CLI::Option* option = std::visit(
      [&](auto* value) {
        if constexpr (std::is_same_v<decltype(value), bool*>)
          return app.add_flag(parameter.name, *value, parameter.summary);
        else return app.add_option(parameter.name, *value, parameter.summary);
      },
      parameter.value);
  if (!parameter.type.empty()) option->type_name(parameter.type);
  if (!parameter.choices.empty()) option->check(CLI::IsMember(parameter.choices));
  if (std::holds_alternative<std::int64_t*>(parameter.value)) {
    const auto [least, most] = parameter.range;
    option->check(most == INT64_MAX ? CLI::Validator(CLI::NonNegativeNumber)
                                    : CLI::Range(least, most));
  }
  if (parameter.required) option->required();
  if (parameter.once_each) option->allow_extra_args(false);
  if (parameter.shows_default) option->capture_default_str();
  if (!parameter.assumed.empty()) option->default_str(parameter.assumed);
  return option;
}

/// Adds the flags that every verb has and the parameters of `verb` to `app`.
std::vector<Binding> declare(CLI::App& app, const Invocation& verb, OutputFlags& output) {
  app.add_flag("--json", output.json, verb.json_summary);
  app.add_flag("-v,--verbose", output.verbose, "Print more detail");
  app.add_flag("-q,--quiet", output.quiet, "Print nothing but errors");
  std::vector<Binding> declared;
  for (const Parameter& parameter : verb.parameters) {
    CLI::Option* option = add(app, parameter);
    if (!parameter.excludes.empty()) option->excludes(app.get_option(parameter.excludes));
    declared.push_back({option, &parameter});
  }
  return declared;
}

/// Replaces Hydra's two-letter flags with their long forms, such as -cn with --config-name. Returns
/// any other word unchanged.
std::string spelled_out(const std::string& word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"-cn", "--config-name"}, {"-cp", "--config-path"}, {"-cd", "--config-dir"}}};
  for (const auto& [brief, full] : kShort) {
    if (word == brief || word.starts_with(std::string(brief) + "="))
      return std::string(full) + word.substr(brief.size());
  }
  return word;
}

/// Stores the recipe's name: the value of --config-name, or else the first word that is not an
/// override, wherever it appears. Returns an error if the verb needs a recipe and none is given.
std::optional<Diagnostic> place_recipe(const Invocation& verb, const std::string& name) {
  if (!verb.recipe) return std::nullopt;
  NamedRecipe& recipe = *verb.recipe;
  std::vector<std::string>& words = recipe.overrides;
  if (!recipe.name.empty()) words.insert(words.begin(), std::exchange(recipe.name, ""));
  if (!recipe.config_name.empty()) {
    recipe.name = std::exchange(recipe.config_name, "");
    return std::nullopt;
  }
  const auto found = std::ranges::find_if_not(words, is_override);
  if (found != words.end()) {
    recipe.name = *found;
    words.erase(found);
    return std::nullopt;
  }
  if (!verb.needs_recipe()) return std::nullopt;
  const std::string action = verb.action && !verb.action->empty() ? " " + *verb.action : "";
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "no recipe given",
                    "give its name or file, as in `retort " + name + action + " classify`"};
}

/// Returns the key of an override: "a.b" for "++a.b=1".
std::string_view overridden_key(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("+~"), word.size()));
  return word.substr(0, override_key_length(word));
}

/// Appends the overrides for which the flags of `verb` are shorthand, such as device.count=2 for
/// --devices 2. Returns an error if such an override is also typed; otherwise nullopt.
std::optional<Diagnostic> place_short_overrides(const Invocation& verb) {
  for (const Parameter& parameter : verb.parameters) {
    if (parameter.key.empty()) continue;
    const std::int64_t number = *std::get<std::int64_t*>(parameter.value);
    if (number == 0) continue;
    const auto written = std::ranges::find(*verb.overrides, parameter.key, overridden_key);
    if (written != verb.overrides->end()) {
      return Diagnostic{ErrorCode::kUsage,
                        {},
                        "",
                        parameter.name + " " + std::to_string(number) + " is short for " +
                            parameter.key + "=" + std::to_string(number) + ", and '" +
                            printable(*written) + "' is given too",
                        "leave one of them out"};
    }
    verb.overrides->push_back(parameter.key + "=" + std::to_string(number));
  }
  return std::nullopt;
}

/// Returns an error for each output file or folder given as a URL.
Diagnostics written_addresses(const Invocation& verb) {
  Diagnostics errors;
  for (const Parameter& parameter : verb.parameters) {
    const auto* const text = std::get_if<std::string*>(&parameter.value);
    if (!parameter.is_written || !text || !is_address(**text)) continue;
    errors.push_back({ErrorCode::kUsage,
                      {},
                      "",
                      parameter.name + ": '" + printable(without_url_secrets(**text)) +
                          "' is a URL, not a file or folder",
                      "write to a local file or folder, then copy it to the URL"});
  }
  return errors;
}

std::string overview() {
  std::string text =
      "Retort runs training recipes: it checks a recipe, shows what it will do, runs it and "
      "records what happened.\n\n"
      "Usage: retort VERB [RECIPE] [key=value ...] [--flags]\n\nVerbs:\n";
  for (const Command* command : all_commands()) {
    text += "  " + std::string(command->name) + std::string(12 - command->name.size(), ' ') +
            std::string(command->summary) + '\n';
  }
  return text +
         "\n  --help      This text; `retort VERB --help` explains a verb\n  --version   Versions "
         "of retort, LibTorch and CUDA\n\nExample: retort run quickstart\n";
}

Diagnostic unknown_verb(const std::string& verb) {
  std::vector<std::string> names;
  for (const Command* command : all_commands()) names.emplace_back(command->name);
  std::string help = did_you_mean(verb, names);
  if (help.empty()) help = "`retort --help` lists the verbs";
  return {ErrorCode::kUnknownVerb, {}, "", "unknown verb '" + verb + "'", std::move(help)};
}

/// Flags that precede a setting in other programs, as in "--set a=1"; not needed in Retort.
constexpr std::array<std::string_view, 6> kSetters = {"set",  "override",    "overrides",
                                                      "opts", "cfg_options", "option"};

/// Converts other programs' flags, which are not in `flags`, to overrides: --lr 2e-5 becomes
/// lr=2e-5.
std::string as_overrides(std::span<const std::string> words, std::span<const std::string> flags) {
  const auto is_flag = [](const std::string& word) {
    return word.size() > 2 && word.starts_with("--");
  };
  std::string overrides;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (!is_flag(words[i]) || std::ranges::count(flags, words[i].substr(2, equals - 2))) continue;
    std::string key = words[i].substr(2, equals - 2);
    std::ranges::replace(key, '-', '_');
    const bool precedes_one = i + 1 < words.size() && is_override(words[i + 1]);
    if (equals == std::string::npos && precedes_one && std::ranges::count(kSetters, key) > 0) {
      overrides += ' ' + words[i + 1];  // --set a=1, as in other programs
      continue;
    }
    const bool has_value = i + 1 < words.size() && !is_flag(words[i + 1]) && !precedes_one;
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : has_value                 ? words[i + 1]
                                                          : "true";
    overrides += ' ' + key + '=' + value;
  }
  return overrides;
}

/// Returns the help for a command line that could not be parsed: the known flag closest to an
/// unknown one, settings rewritten as overrides, or where to find usage information.
std::string flag_help(const CLI::App& app, std::span<const std::string> words,
                      const std::string& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || std::ranges::count(names, flag.substr(2))) continue;
    const std::string near = nearest_name(flag.substr(2), names);
    if (!near.empty()) return "did you mean '--" + near + "'?";
  }
  if (app.get_option_no_throw("--config-name")) {
    if (const std::string overrides = as_overrides(words, names); !overrides.empty())
      return "write settings as key=value:" + overrides;
  }
  return "`retort " + verb + " --help` shows how it is used";
}

/// Returns what can be typed for `option`: "--format" and its choices.
ExpectedWord expected(const CLI::Option& option, std::span<const Binding> declared) {
  ExpectedWord word{
      option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front(),
      option.get_description(), ""};
  const auto found = std::ranges::find(declared, &option, &Binding::option);
  if (found == declared.end()) return word;
  word.type = found->parameter->type;
  word.choices = found->parameter->choices;
  return word;
}

/// Returns the words after the verb in reverse order, as CLI11 expects them.
std::vector<std::string> reversed(std::span<const std::string> words) {
  std::vector<std::string> result(words.rbegin(), words.rend() - 1);
  std::ranges::transform(result, result.begin(), spelled_out);
  return result;
}

/// Returns three lines: this program's version and build id, the LibTorch it was built with, and
/// the worker's CUDA version.
std::string version_text() {
  return "retort " RETORT_VERSION " (build " + std::string(build_id()) +
         ")\nLibTorch " RETORT_LIBTORCH_VERSION "\nCUDA " RETORT_CUDA_VERSION "\n";
}

}  // namespace

Result<std::variant<ParsedLine, HelpText>> parse_command_line(std::span<const std::string> words) {
  using Parsed = std::variant<ParsedLine, HelpText>;
  if (words.empty())
    return Diagnostic{
        ErrorCode::kUsage, {}, "", "no verb given", "`retort --help` lists the verbs"};
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help")
    return Parsed{HelpText{overview()}};
  if (words[0] == "--version") return Parsed{HelpText{version_text()}};

  const Command* command = find_command(words[0]);
  if (!command) return unknown_verb(words[0]);

  ParsedLine line{words[0], command->declare(), {}};
  const Invocation& verb = line.invocation;
  CLI::App app(std::string(command->summary), "retort " + line.verb);
  app.footer("Example: " + std::string(command->example));
  app.get_formatter()->column_width(26);
  declare(app, verb, line.output);
  try {
    app.parse(reversed(words));
  } catch (const CLI::CallForHelp&) {
    place_recipe(verb, line.verb);
    const bool has_recipe =
        verb.recipe && std::ranges::count(verb.no_recipes, verb.recipe->name) == 0;
    return Parsed{HelpText{app.help(), has_recipe ? *verb.recipe : NamedRecipe()}};
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    std::ranges::replace(message, '\n', ' ');
    return Diagnostic{ErrorCode::kUsage, {}, "", message, flag_help(app, words, line.verb)};
  }
  if (auto problem = place_recipe(verb, line.verb)) return *std::move(problem);
  if (auto problem = place_short_overrides(verb)) return *std::move(problem);
  if (Diagnostics errors = written_addresses(verb); !errors.empty()) return errors;
  return Parsed{std::move(line)};
}

UnfinishedLine parse_unfinished(std::span<const std::string> words) {
  const Command* command = find_command(words[0]);
  const Invocation verb = command ? command->declare() : Invocation();
  UnfinishedLine line{words[0]};
  CLI::App app;
  OutputFlags ignored;
  const std::vector<Binding> declared = declare(app, verb, ignored);
  app.allow_extras();
  std::vector<std::string> typed = reversed(words);
  if (!typed.empty() && typed[0].starts_with('-')) {
    const CLI::Option* flag = app.get_option_no_throw(typed[0]);
    if (flag && flag->get_items_expected_max() > 0) {
      line.next = expected(*flag, declared);
      line.is_flag_value = true;
      typed.erase(typed.begin());
    }
  }
  try {
    app.parse(typed);
  } catch (const CLI::ParseError&) {  // everything before the error has been parsed
  }
  place_recipe(verb, line.verb);
  if (verb.recipe) line.recipe = *verb.recipe;
  if (verb.action) line.action = *verb.action;
  for (const CLI::Option* option : std::as_const(app).get_options()) {
    const bool is_free = option->count() == 0 || option->get_items_expected_max() > 1;
    if (!option->get_positional()) line.flags.push_back(expected(*option, declared));
    else if (!line.next && is_free) line.next = expected(*option, declared);
  }
  return line;
}

bool is_override(const std::string& word) {
  if (word.starts_with('~') || word.starts_with('+')) return true;
  if (word.find('=') == word.npos) return false;
  const bool names_file =
      word.ends_with(".yaml") || word.ends_with(".yml");  // a file, such as runs/lr=0.1/recipe.yaml
  std::error_code ignored;
  return !(names_file && std::filesystem::is_regular_file(word, ignored));
}

}  // namespace runner

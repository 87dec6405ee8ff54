#include "runner/cli/command_line.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include "runner/cli/command.h"
#include "runner/text/suggest.h"
#include "runner/cli/version.h"

namespace runner {
namespace {

constexpr const char* kOverrides = "key=value, +key=value, ++key=value, ~key or group=option, as in Hydra";

void declare_recipe(CLI::App& app, Arguments& arguments) {
  app.add_option("recipe", arguments.recipe, "A recipe's name, or a file ending in .yaml");
  app.add_option("overrides", arguments.overrides, kOverrides);
  app.add_option("--config-name", "-cn: the recipe, as in Hydra")->type_name("NAME");
  app.add_option("--config-path", arguments.config_path, "-cp: look here instead of in the working directory")
      ->type_name("DIR");
  app.add_option("--config-dir", arguments.config_dirs, "-cd: another folder of recipes")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_flag("--strict", arguments.strict, "Treat warnings as errors");
}

/// What `config show` shows, and `run` with --cfg or --info.
void declare_views(CLI::App& app, Arguments& arguments) {
  app.add_option("-p,--package", arguments.package, "Show only what is below this key")->type_name("KEY");
  app.add_flag("--resolve", arguments.resolve, "Show it with interpolations resolved and every default filled in");
  app.add_option("-i,--info", arguments.info, "Show how it is composed: defaults, defaults-tree or searchpath")
      ->check(CLI::IsMember({"defaults", "defaults-tree", "searchpath"}))
      ->type_name("VIEW");
}

/// Whose weights `evaluate` and `predict` take.
void declare_trained(CLI::App& app, Arguments& arguments) {
  app.add_option("run", arguments.run_folder, "The run's folder, as `retort run` printed it")->required();
  app.add_option("--checkpoint", arguments.checkpoint,
                 "best, latest, or a checkpoint's folder; without it, the one that the training keeps")
      ->type_name("WHICH");
}

CLI::Option* declare_no_reuse(CLI::App& app, Arguments& arguments) {
  return app.add_flag("--no-reuse", arguments.no_reuse,
                      "Compute everything, even features that an earlier run has computed");
}

/// The flags and positionals of each verb.
void declare(CLI::App& app, std::string_view verb, Arguments& arguments) {
  app.add_flag("--json", arguments.json, "Results as JSON on standard output");
  app.add_flag("-v,--verbose", arguments.verbose, "Say more");
  app.add_flag("-q,--quiet", arguments.quiet, "Say nothing but errors");
  if (verb == "run") {
    declare_recipe(app, arguments);
    app.add_flag("--smoke", arguments.smoke, "Run two steps of every stage, to see whether the recipe works");
    app.add_flag("--reuse", arguments.reuse, "Reuse the results of earlier runs for every stage, also for trainings");
    declare_no_reuse(app, arguments)->excludes("--reuse");
    app.add_option("--only", arguments.only, "Run this node and what it needs")->type_name("NODE");
    app.add_option("-c,--cfg", arguments.show, "job: show the recipe instead, as `config show` does")
        ->check(CLI::IsMember({"job", "all"}))
        ->type_name("VIEW");
    declare_views(app, arguments);
    app.add_flag("-m,--multirun", arguments.multirun, "As `sweep`");
    app.add_flag("--dry-run", arguments.dry_run, "With --multirun: list the runs and start none");
  } else if (verb == "plan") {
    declare_recipe(app, arguments);
    app.add_option("--budget", arguments.budget, "Compare it with this much memory: 8GiB, 512MiB")->type_name("SIZE");
    app.add_option(
           "--gpu", arguments.gpu,
           "Plan for a GPU that is not here: its name, or words of it such as L4; an unknown one lists them all")
        ->type_name("GPU");
    app.add_option("--only", arguments.only, "Plan this node and what it needs")->type_name("NODE");
    app.add_option("--svg", arguments.svg, "Draw the live bytes over a step; one file per node")->type_name("FILE");
    app.add_flag("--detailed-exitcode", arguments.detailed_exitcode,
                 "Exit with 2 where something would run, with 0 where all is reused");
    app.add_flag("--reuse", arguments.reuse, "As `run --reuse` would");
    declare_no_reuse(app, arguments)->excludes("--reuse");
  } else if (verb == "certify") {
    declare_recipe(app, arguments);
    app.add_option("--only", arguments.only, "Certify this node only")->type_name("NODE");
  } else if (verb == "resume") {
    app.add_option("run", arguments.run_folder, "The run's folder, as `retort run` printed it")->required();
    app.add_option("overrides", arguments.overrides, "key=value: what changes from now on");
    declare_no_reuse(app, arguments);
    app.add_flag("--force", arguments.force, "Accept changes after which the result is neither recipe's");
  } else if (verb == "evaluate") {
    declare_trained(app, arguments);
    declare_no_reuse(app, arguments);
    app.add_option("overrides", arguments.overrides,
                   "key=value: other data, other options of evaluate, device, run.dir");
  } else if (verb == "predict") {
    declare_trained(app, arguments);
    app.add_option("paths", arguments.paths, "Images, and folders of images; also device=… and threads=…")->required();
    app.add_option("--top", arguments.top, "Classes to print per image, the likeliest first")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("K")
        ->capture_default_str();
    app.add_option("--batch-size", arguments.batch_size, "Images to run at once")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--out", arguments.out, "Write to this file, once all is done, instead of to standard output")
        ->type_name("FILE");
    app.add_option("--node", arguments.node, "The training, where the run has several")->type_name("NODE");
    app.add_flag("--skip-corrupt", arguments.skip_corrupt,
                 "Continue after an image that cannot be read; the exit code is still 65");
  } else if (verb == "export") {
    declare_trained(app, arguments);
    auto* merged = app.add_flag("--merged", arguments.merged,
                                "The whole network, adapters merged into it, as transformers or timm save it");
    auto* adapter = app.add_flag("--adapter", arguments.adapter, "Only the adapters, as peft saves them");
    merged->excludes(adapter);
    app.add_option("--out", arguments.out, "The folder to write; it must not exist")->type_name("DIR")->required();
    app.add_option("--names", arguments.names,
                   "Of an adapter: clip_vision and clip_inner for CLIP with and without vision_model., hf_vit and "
                   "hf_vit_v5 for the modules' names of transformers 4 and 5, timm; default: the model's own")
        ->check(CLI::IsMember({"clip_vision", "clip_inner", "hf_vit", "hf_vit_v5", "timm"}))
        ->type_name("NAMES");
    app.add_flag("--head-inside", arguments.head_inside,
                 "Of an adapter: save the head among its modules_to_save instead of in head.safetensors");
    app.add_option("--node", arguments.node, "The training, where the run has several")->type_name("NODE");
  } else if (verb == "analyze") {
    app.add_option("run", arguments.run_folder, "The run's folder, as `retort run` printed it")->required();
    app.add_option("--out", arguments.out, "Draw into this folder instead of the run's analysis/")->type_name("DIR");
  } else if (verb == "compare") {
    app.add_option("runs", arguments.paths, "The folders of two or more runs")->required();
    app.add_option("--out", arguments.out, "Draw model_comparison.svg into this folder")->type_name("DIR");
  } else if (verb == "sweep") {
    declare_recipe(app, arguments);
    app.add_flag("--dry-run", arguments.dry_run, "List the runs and start none");
  } else if (verb == "validate") {
    declare_recipe(app, arguments);
  } else if (verb == "graph") {
    declare_recipe(app, arguments);
    app.add_option("--format", arguments.format, "text, dot, mermaid or json")
        ->check(CLI::IsMember({"text", "dot", "mermaid", "json"}))
        ->type_name("FORMAT")
        ->default_str("text");
  } else if (verb == "config") {
    app.add_option("action", arguments.subject, "show RECIPE, or diff RECIPE [overrides] [RECIPE [overrides]]")
        ->required()
        ->check(CLI::IsMember({"show", "diff"}));
    declare_recipe(app, arguments);
    app.add_flag("--origin", arguments.origin, "Show after each value which file or override it came from");
    app.add_option("--explain", arguments.explain, "List everything that wrote this key, in order")->type_name("KEY");
    declare_views(app, arguments);
  } else if (verb == "schema") {
    app.add_option("kind", arguments.subject,
                   "A kind such as train.supervised or train/optimizer/adam; default: recipes");
    app.add_flag("--editor", arguments.editor,
                 "The schema of a file as it is written: a recipe, or a group such as train");
  } else if (verb == "explain") {
    app.add_option("what", arguments.subject, "A key such as train.epochs, a kind such as train.supervised, or E0301")
        ->required();
  } else if (verb == "doctor") {
    app.add_option("check", arguments.subject,
                   "determinism: run the first steps of a recipe twice and compare every tensor; memory: try out "
                   "the mechanisms of memory policies; default: look at this machine")
        ->check(CLI::IsMember({"determinism", "memory"}));
    declare_recipe(app, arguments);
    app.add_option("--steps", arguments.steps, "determinism: steps to compare, at most those of an epoch")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("N")
        ->capture_default_str();
  } else if (verb == "init") {
    app.add_option("file", arguments.subject, "The file to write; it must not exist")->default_str("recipe.yaml");
  } else if (verb == "completion") {
    app.add_option("shell", arguments.subject, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  } else if (verb == "data") {
    app.add_option("action", arguments.subject, "make, or fetch")->required()->check(CLI::IsMember({"make", "fetch"}));
    app.add_option("what", arguments.what, "image_folder (make), flowers102, cub200, or hf:ORG/NAME[@REVISION] (fetch)")
        ->required()
        ->type_name("DATA");
    app.add_option("--out", arguments.out,
                   "make: the folder to write, which must not exist; fetch: the folder, default data/, or for hf: the "
                   "Hugging Face cache")
        ->type_name("DIR");
    app.add_option("--from-file", arguments.from_files, "fetch: published files that are here already")
        ->type_name("FILE");
    app.add_option("--file", arguments.files, "fetch hf: these files instead of the weights and their descriptions")
        ->type_name("NAME");
    app.add_option("--url", arguments.url, "fetch: from this address instead of where it is published")
        ->type_name("URL");
    app.add_option("--classes", arguments.classes, "make: classes")->check(CLI::Range(2, 24))->capture_default_str();
    app.add_option("--per-class", arguments.per_class, "make: images of each class")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    app.add_option("--size", arguments.size, "make: width and height in pixels")
        ->check(CLI::Range(16, 1024))
        ->capture_default_str();
    app.add_option("--seed", arguments.seed, "make: the seed of every image")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }
}

/// Hydra's flags of two letters, spelled out.
std::string spelled_out(const std::string& word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"-cn", "--config-name"}, {"-cp", "--config-path"}, {"-cd", "--config-dir"}}};
  for (const auto& [brief, full] : kShort) {
    if (word == brief || word.starts_with(std::string(brief) + "="))
      return std::string(full) + word.substr(brief.size());
  }
  return word;
}

/// The recipe is what --config-name says, or the first word that is no override, wherever it stands.
std::optional<Diagnostic> place_recipe(const CLI::App& app, Arguments& arguments) {
  const CLI::Option* config_name = app.get_option_no_throw("--config-name");
  if (!config_name) return std::nullopt;
  std::vector<std::string>& words = arguments.overrides;
  if (!arguments.recipe.empty()) words.insert(words.begin(), std::exchange(arguments.recipe, ""));
  if (!config_name->empty()) {
    arguments.recipe = config_name->as<std::string>();
    return std::nullopt;
  }
  const auto recipe = std::ranges::find_if_not(words, is_override);
  if (recipe == words.end()) {
    if (arguments.verb == "doctor" && arguments.subject != "determinism") return std::nullopt;
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "no recipe is named",
                      "write its name or file: retort " + arguments.verb +
                          (arguments.subject.empty() ? "" : " " + arguments.subject) + " classify"};
  }
  arguments.recipe = *recipe;
  words.erase(recipe);
  return std::nullopt;
}

std::string overview() {
  std::string text =
      "Retort runs training recipes: it checks a recipe, shows what it will do, runs it and leaves a record.\n\n"
      "Usage: retort VERB [RECIPE] [key=value ...] [--flags]\n\nVerbs:\n";
  for (const Command& command : all_commands()) {
    text += "  " + std::string(command.name) + std::string(12 - command.name.size(), ' ') +
            std::string(command.summary) + '\n';
  }
  return text +
         "\n  --help      This text; `retort VERB --help` says more\n  --version   Versions of retort, LibTorch and "
         "CUDA\n\n"
         "Example: retort run quickstart\n";
}

Diagnostic unknown_verb(const std::string& verb) {
  std::vector<std::string> names;
  for (const Command& command : all_commands()) names.emplace_back(command.name);
  std::string help = did_you_mean(verb, names);
  if (help.empty()) help = "`retort --help` lists the verbs";
  return {ErrorCode::kUnknownVerb, {}, "", "unknown verb '" + verb + "'", std::move(help)};
}

/// What `words` hold besides `flags`, as another program takes it, as overrides: --lr 2e-5 as lr=2e-5.
std::string as_overrides(std::span<const std::string> words, std::span<const std::string> flags) {
  const auto is_flag = [](const std::string& word) { return word.size() > 2 && word.starts_with("--"); };
  std::string overrides;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (!is_flag(words[i]) || std::ranges::count(flags, words[i].substr(2, equals - 2))) continue;
    std::string key = words[i].substr(2, equals - 2);
    std::ranges::replace(key, '-', '_');
    const bool has_value = i + 1 < words.size() && !is_flag(words[i + 1]) && !is_override(words[i + 1]);
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : has_value                 ? words[i + 1]
                                                          : "true";
    overrides += ' ' + key + '=' + value;
  }
  return overrides;
}

/// The first word that looks like a flag and is none of `app`'s, with the nearest that is.
std::string flag_help(const CLI::App& app, std::span<const std::string> words, const std::string& verb) {
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
      return "settings are written key=value:" + overrides;
  }
  return "`retort " + verb + " --help` shows how it is used";
}

Parameter described(const CLI::Option& option) {
  Parameter parameter{option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front(),
                      option.get_description(), option.get_type_name()};
  // "FORMAT:{text,dot}", as CLI11 writes it in help.
  const std::size_t open = parameter.type.find(":{");
  if (open == std::string::npos || !parameter.type.ends_with('}')) return parameter;
  std::istringstream list(parameter.type.substr(open + 2, parameter.type.size() - open - 3));
  for (std::string choice; std::getline(list, choice, ',');) parameter.choices.push_back(choice);
  parameter.type.resize(open);
  return parameter;
}

}  // namespace

Result<std::variant<Arguments, HelpText>> parse_command_line(std::span<const std::string> words) {
  using Parsed = std::variant<Arguments, HelpText>;
  if (words.empty()) return Diagnostic{ErrorCode::kUsage, {}, "", "no verb given", "`retort --help` lists the verbs"};
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return Parsed{HelpText{overview()}};
  if (words[0] == "--version") return Parsed{HelpText{version_text()}};

  const auto command = std::ranges::find(all_commands(), words[0], &Command::name);
  if (command == all_commands().end()) return unknown_verb(words[0]);

  Arguments arguments;
  arguments.verb = words[0];
  CLI::App app(std::string(command->summary), "retort " + arguments.verb);
  app.footer("Example: " + std::string(command->example));
  app.get_formatter()->column_width(26);
  declare(app, arguments.verb, arguments);
  std::vector<std::string> reversed(words.rbegin(), words.rend() - 1);  // CLI11 takes them from the back
  std::ranges::transform(reversed, reversed.begin(), spelled_out);
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    place_recipe(app, arguments);
    return Parsed{HelpText{app.help(), std::move(arguments)}};
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    std::ranges::replace(message, '\n', ' ');
    return Diagnostic{ErrorCode::kUsage, {}, "", message, flag_help(app, words, arguments.verb)};
  }
  if (auto problem = place_recipe(app, arguments)) return *std::move(problem);
  return Parsed{std::move(arguments)};
}

UnfinishedLine parse_unfinished(std::span<const std::string> words) {
  UnfinishedLine line;
  line.arguments.verb = words[0];
  CLI::App app;
  declare(app, words[0], line.arguments);
  app.allow_extras();
  std::vector<std::string> reversed(words.rbegin(), words.rend() - 1);
  std::ranges::transform(reversed, reversed.begin(), spelled_out);
  if (!reversed.empty() && reversed[0].starts_with('-')) {
    const CLI::Option* flag = app.get_option_no_throw(reversed[0]);
    if (flag && flag->get_items_expected_max() > 0) {
      line.next = described(*flag);
      line.is_flag_value = true;
      reversed.erase(reversed.begin());
    }
  }
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError&) {  // what came before the mistake is in line.arguments
  }
  place_recipe(app, line.arguments);
  for (const CLI::Option* option : std::as_const(app).get_options()) {
    const bool is_free = option->count() == 0 || option->get_items_expected_max() > 1;
    if (!option->get_positional()) line.flags.push_back(described(*option));
    else if (!line.next && is_free) line.next = described(*option);
  }
  return line;
}

bool is_override(const std::string& word) {
  if (word.starts_with('~') || word.starts_with('+')) return true;
  if (word.find('=') == word.npos) return false;
  const bool names_file = word.ends_with(".yaml") || word.ends_with(".yml");  // runs/lr=0.1/recipe.yaml
  std::error_code ignored;
  return !(names_file && std::filesystem::is_regular_file(word, ignored));
}

}  // namespace runner

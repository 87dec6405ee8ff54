#include "runner/parent/record/input_record.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema_node.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"
#include "runner/shared/weights/weights_file.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Resolves an option's value to an absolute path; nullopt for weights that do not exist.
std::optional<fs::path> whole_path(const std::string& text, const fs::path& folder) {
  if (!text.starts_with("hf:")) return fs::absolute(folder / text).lexically_normal();
  try {
    return find_weights(text);
  } catch (const StageError&) {
    return std::nullopt;
  }
}

void gather_inputs(const Value& value, std::vector<std::string>& path, const std::string& pointer,
                   const Value& recipe, const SchemaSet& schemas, const fs::path& folder,
                   std::vector<InputPath>& found) {
  const auto below = [&](const std::string& key, const Value& part) {
    path.push_back(key);
    gather_inputs(part, path, pointer_to(pointer, key), recipe, schemas, folder, found);
    path.pop_back();
  };
  if (const auto* map = value.map())
    for (const Entry& entry : *map)
      if (entry.key != "kind")
        below(entry.key, entry.value);  // a kind's options are in the schema of that kind
  if (const auto* list = value.list())
    for (std::size_t i = 0; i < list->size(); ++i) below(std::to_string(i), (*list)[i]);
  const std::string* text = value.reveal();
  if (!text || text->empty() || !schemas.choices(recipe, path).is_path) return;
  if (auto whole = whole_path(*text, folder)) found.push_back({pointer, *std::move(whole)});
}

/// The current state of a file below an input.
struct InputFile {
  std::string name;
  FileState state;
};

std::optional<InputFile> look_at_file(const fs::path& path, std::string name) {
  const auto state = file_state(path);
  return state ? std::optional(InputFile{std::move(name), *state}) : std::nullopt;
}

/// True if a folder was created by runs; such a folder is not an input of a recipe.
bool is_made_by_runs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(RunLayout(folder).mark(), error) || fs::exists(folder / kSweepJournal, error);
}

std::vector<InputFile> input_files(const fs::path& input) {
  std::vector<InputFile> files;
  std::error_code error;
  if (!fs::is_directory(input, error)) {
    if (auto file = look_at_file(input, "")) files.push_back(*std::move(file));
    return files;
  }
  fs::recursive_directory_iterator at(input, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const bool is_folder = at->is_directory(gone) && !at->is_symlink(gone);
    if (at->path().filename().string().starts_with('.') ||
        (is_folder && is_made_by_runs(at->path()))) {
      at.disable_recursion_pending();
      continue;
    }
    if (auto file = look_at_file(at->path(), at->path().lexically_relative(input).generic_string()))
      files.push_back(*std::move(file));
  }
  std::ranges::sort(files, {}, &InputFile::name);
  return files;
}

/// Returns a digest of the contents of all files; nullopt if a file cannot be read.
std::optional<std::string> digest_of_contents(const fs::path& input,
                                              const std::vector<InputFile>& files) {
  FileDigests digests;
  Digest all;
  for (const InputFile& file : files) {
    const auto digest = digests.of(file.name.empty() ? input : input / file.name);
    if (!digest) return std::nullopt;
    all.update(*digest + '\n');
  }
  return all.finish();
}

/// Returns a member, which may have any type; null if it is missing.
Json input_member(const Json& object, const char* key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

std::string input_amount(const Json& record) {
  const Json files = input_member(record, "files"), bytes = input_member(record, "bytes");
  if (!files.is_number_unsigned() || !bytes.is_number_unsigned()) return "unknown";
  const auto count = files.get<std::uint64_t>();
  return std::to_string(count) + (count == 1 ? " file" : " files") + " with " +
         bytes_text(static_cast<std::int64_t>(bytes.get<std::uint64_t>()));
}

}  // namespace

std::vector<InputPath> input_paths(const Value& recipe, const SchemaSet& schemas,
                                   const fs::path& folder) {
  std::vector<InputPath> found;
  if (!recipe.map()) return found;
  for (const Entry& stage : *recipe.map()) {
    if (!stage.value.find("kind")) continue;  // not a stage, so it has no inputs
    std::vector<std::string> path = {stage.key};
    gather_inputs(stage.value, path, pointer_to("", stage.key), recipe, schemas, folder, found);
  }
  return found;
}

InputLook look_at_input(const fs::path& input, std::uintmax_t largest) {
  const std::vector<InputFile> files = input_files(input);
  if (files.empty()) return {};
  InputLook look;
  Digest names, times;
  std::uintmax_t bytes = 0;
  for (const auto& [name, state] : files) {
    bytes += state.size;
    const std::string name_and_size =
        name + '\0' + std::to_string(state.size) + '\n';  // names contain no NUL
    names.update(name_and_size);
    times.update(name + '\0' + std::to_string(state.modified) + '\n');
    look.files.push_back(std::hash<std::string>()(name_and_size + std::to_string(state.modified)));
  }
  std::ranges::sort(look.files);
  const auto contents = bytes <= largest ? digest_of_contents(input, files) : std::nullopt;
  look.record = {{"files", files.size()},
                 {"bytes", bytes},
                 {"names", names.finish()},
                 {"contents", contents ? Json(*contents) : Json(nullptr)},
                 {"modified", times.finish()}};
  return look;
}

Json input_record(const std::vector<InputPath>& inputs, std::uintmax_t largest) {
  Json record = Json::object();
  for (const auto& [pointer, path] : inputs) record[pointer] = look_at_input(path, largest).record;
  return record;
}

std::string change_of_input(const Json& before, const Json& now) {
  if (input_member(before, "changed") == true) return "was changed during the run";
  if (!now.is_object()) return "no longer exists; it was " + input_amount(before);
  if (input_member(before, "names") != input_member(now, "names")) {
    const std::string was = input_amount(before), is = input_amount(now);
    return was == is ? "has other files: " + was + " as before, with different names or sizes"
                     : "was " + was + " and is now " + is;
  }
  const Json old_contents = input_member(before, "contents"),
             contents = input_member(now, "contents");
  if (old_contents.is_string() && contents.is_string())
    return old_contents == contents ? "" : "has the same files with different contents";
  return input_member(before, "modified") == input_member(now, "modified")
             ? ""
             : "may have changed: its files have different modification times, and the record does "
               "not have a digest of their contents";
}

std::vector<InputChange> input_changes(const Json& before, const Json& now) {
  std::vector<InputChange> changes;
  if (!before.is_object() || !now.is_object()) return changes;
  for (const auto& [pointer, was] : before.items()) {
    if (!was.is_object() || !now.contains(pointer)) continue;
    const bool may_be_gone = input_member(was, "made") == true;
    if (may_be_gone && now[pointer].is_null()) continue;
    std::string text = change_of_input(was, now[pointer]);
    if (!text.empty()) changes.push_back({pointer, std::move(text)});
  }
  return changes;
}

namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

constexpr std::size_t kNamedPackages = 5;
constexpr const char* kJobVariable = "SLURM_JOB_ID";  // differs between jobs

/// Returns the member at that path; null if there is none.
Json record_at(const Json& record, std::initializer_list<const char*> path) {
  const Json* at = &record;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return *at;
}

std::string value_text(const Json& value) {
  if (value.is_null()) return "not set";
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::set<std::string> listed_words(const Json& list) {
  std::set<std::string> words;
  if (!list.is_array()) return words;
  for (const Json& one : list)
    if (one.is_string()) words.insert(one.get<std::string>());
  return words;
}

std::string words_but(const std::set<std::string>& words, const std::set<std::string>& others) {
  std::vector<std::string> left;
  std::ranges::set_difference(words, others, std::back_inserter(left));
  return join(left, ", ");
}

class Changes {
 public:
  Changes(const Json& before, const Json& now) : before_(before), now_(now) {}

  void compare(const std::string& what, std::initializer_list<const char*> path) {
    const Json was = record_at(before_, path), is = record_at(now_, path);
    if (was.is_null() || is.is_null() || was == is) return;
    add(what, "the " + what + " was " + value_text(was) + " and is now " + value_text(is));
  }

  void compare_instruction_sets() {
    const Json old_list = record_at(before_, {"cpu", "instruction_sets"});
    const Json list = record_at(now_, {"cpu", "instruction_sets"});
    if (!old_list.is_array() || !list.is_array()) return;
    const auto was = listed_words(old_list), is = listed_words(list);
    if (was == is) return;
    const std::string lost = words_but(was, is), gained = words_but(is, was);
    std::string text = "the processor";
    if (!lost.empty()) text += " lacks " + lost;
    if (!lost.empty() && !gained.empty()) text += " and";
    if (!gained.empty()) text += " also has " + gained;
    add("instruction sets", text + ": kernels may round differently");
  }

  void compare_variables() {
    const Json was = record_at(before_, {"variables"}), is = record_at(now_, {"variables"});
    if (!was.is_object() || !is.is_object()) return;
    std::set<std::string> names;
    for (const Json* variables : {&was, &is})
      for (const auto& [name, value] : variables->items()) names.insert(name);
    names.erase(kJobVariable);
    for (const std::string& name : names) {
      const Json old_value = record_at(was, {name.c_str()}), value = record_at(is, {name.c_str()});
      if (old_value != value)
        add("variable " + name, "the variable " + name + " was " + value_text(old_value) +
                                    " and is now " + value_text(value));
    }
  }

  /// Reports at most kNamedPackages packages by name, replaced ones before removed or new ones.
  void compare_packages() {
    const Json was = record_at(before_, {"python", "packages"}),
               is = record_at(now_, {"python", "packages"});
    if (!was.is_object() || !is.is_object()) return;
    std::array<std::vector<std::pair<std::string, std::string>>, 3> found;  // name, text
    for (const auto& [name, version] : was.items()) {
      const Json now = record_at(is, {name.c_str()});
      const std::string old = "the Python package " + name + " ";
      if (now.is_null()) found[1].emplace_back(name, old + value_text(version) + " is gone");
      else if (now != version)
        found[0].emplace_back(
            name, old + "was " + value_text(version) + " and is now " + value_text(now));
    }
    for (const auto& [name, version] : is.items())
      if (!was.contains(name))
        found[2].emplace_back(name,
                              "the Python package " + name + " " + value_text(version) + " is new");
    std::size_t named = 0, others = 0;
    for (const auto& group : found)
      for (const auto& [name, text] : group) {
        if (named++ < kNamedPackages)
          changes_.push_back({Weight::kUnknown, "package " + name, text, ""});
        else ++others;
      }
    if (others > 0)
      changes_.push_back({Weight::kUnknown, "packages",
                          std::to_string(others) + " other Python " +
                              (others == 1 ? "package differs" : "packages differ"),
                          ""});
  }

  void compare_inputs() {
    for (const InputChange& change :
         input_changes(record_at(before_, {"inputs"}), record_at(now_, {"inputs"})))
      changes_.push_back({Weight::kWhole, "input " + change.pointer,
                          "the input " + change.pointer + " " + change.text, change.pointer});
  }

  std::vector<RecordChange> take() { return std::move(changes_); }

 private:
  void add(const std::string& what, std::string text) {
    changes_.push_back({Weight::kBits, what, std::move(text), ""});
  }

  const Json &before_, &now_;
  std::vector<RecordChange> changes_;
};

}  // namespace

std::vector<RecordChange> environment_changes(const Json& before, const Json& now) {
  Changes changes(before, now);
  changes.compare_inputs();
  changes.compare("build", {"retort"});
  changes.compare("LibTorch", {"versions", "libtorch"});
  changes.compare("CUDA runtime", {"versions", "cuda_runtime"});
  changes.compare("compiler", {"versions", "compiler"});
  changes.compare("Python", {"python", "version"});
  changes.compare_packages();
  changes.compare("machine type", {"system", "machine"});
  changes.compare("processor", {"cpu", "model"});
  changes.compare_instruction_sets();
  changes.compare("device", {"device"});
  changes.compare("GPU", {"device_choice", "name"});
  changes.compare("GPU driver", {"device_choice", "driver"});
  changes.compare("number of threads", {"threads"});
  changes.compare("determinism", {"determinism"});
  changes.compare_variables();
  return changes.take();
}

std::vector<RecordChange> kind_changes(const Json& before, const Graph& graph) {
  std::vector<RecordChange> changes;
  std::set<std::string> said;
  for (const Json& node : record_at(before, {"nodes"})) {
    const Json id = record_at(node, {"id"}), kind = record_at(node, {"kind"}),
               version = record_at(node, {"version"});
    const auto known =
        std::ranges::find_if(graph.nodes, [&](const Node& one) { return id == one.id; });
    if (known == graph.nodes.end() || kind != known->kind || !version.is_number_integer()) continue;
    if (version == known->version || !said.insert(known->kind).second) continue;
    changes.push_back({Weight::kWhole, "kind " + known->kind,
                       "'" + known->kind + "' had version " + version.dump() +
                           " and now has version " + std::to_string(known->version) +
                           ", which changes the meaning of the same options",
                       known->pointer});
  }
  return changes;
}

Json to_json(const std::vector<RecordChange>& changes) {
  Json list = Json::array();
  for (const RecordChange& change : changes)
    list.push_back({{"what", change.what},
                    {"text", change.text},
                    {"weight", change.weight == Weight::kWhole     ? "whole"
                               : change.weight == Weight::kUnknown ? "unknown"
                                                                   : "bits"}});
  return list;
}

}  // namespace runner

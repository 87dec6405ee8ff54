#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/secret_name.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Defines which values are secrets and what is shown in their place; no other code decides that.
///
/// A secret is recognized by its name, which contains TOKEN, KEY, SECRET, PASSWORD, PASSWD,
/// PASSPHRASE, AUTH or CREDENTIAL, or ends with PASS, ignoring case; words such as `author` and
/// `bypass` are exceptions. In a key, `tokenizer` is ignored.
///
///  - An environment variable with such a name, and everything derived from it, is shown as the
///    interpolation that reads it.
///  - A string in the recipe's `vars` under such a key, at any depth, is shown as ***, whether it
///    was written in a file, in an override or as a value of a sweep. A number is a secret if its
///    key ends with such a word; for TOKEN or KEY it must also have six digits, so that
///    `max_tokens` can be read again from the record. An interpolation that is the whole string is
///    shown as written; a string around an interpolation is shown as ***.
///  - The password in a URL, and the value of a query parameter with such a name, are shown as ***,
///    whichever option contains the URL.
///  - Public values must not be derived from a secret; shown_secrets() rejects them. These are the
///    name, the notice, the seed and the folders of a run or a sweep, and what a launcher writes
///    into its scripts.
/// - In an override as typed, the value is shown as *** if the key is such a name, regardless of
/// what the override sets.
///
/// Other values in an option of a stage are part of the result and are not secrets, unless they
/// were derived from one.
///
/// A secret Value has Value::secret_as set. Values are marked on input: those from files in
/// Composer::compose(), those from overrides in apply_alias(), and those from the environment in
/// interpolation_call.cpp. Interpolations propagate the mark (interpolation_*.cpp). Value::text(),
/// to_json(), write_yaml(), describe() and element_text() show secret_as instead of the data; code
/// that needs the data calls Value::reveal(). So only two records need their own check: the graph
/// (LiveRecord), which is sent to the worker in full, and the environment (is_recorded_variable()).
/// SecretTexts removes secrets from everything the worker prints and reports: in records
/// (LiveRecord), on the terminal (ProgressDisplay) and in diagnostics (placed()).

/// Removes a recipe's secrets from text that happens to contain them, such as a stage's message
/// about its folder.
class SecretTexts {
 public:
  /// Contains no secrets.
  SecretTexts() = default;
  /// Collects the secrets of a recipe with resolved interpolations, and those of the environment
  /// variables that it reads, since a message may contain a variable's value without the text
  /// around it. Ignores secrets shorter than four bytes, which could occur anywhere.
  explicit SecretTexts(const Value& recipe, const Environment& environment = process_environment);
  /// Returns `text` with each secret replaced by what the recipe shows instead.
  std::string hidden_in(std::string text) const;
  Diagnostic hidden_in(Diagnostic diagnostic) const;
  /// Hides the secrets in every string of `answer`, which comes from the worker.
  void hide_in(nlohmann::ordered_json& answer) const;

 private:
  // Secrets and their replacements, longest first.
  std::vector<std::pair<std::string, std::string>> shown_;
};

/// True if `value` is what a record shows instead of a secret; the user must then enter the secret
/// again.
bool is_lost_secret(const Value& value);

/// Returns an error for each string in `options`, at `pointer` in the recipe, that a record shows
/// as *** instead of a secret. The user must enter the secret again, since no record stores it.
Diagnostics lost_secrets(const Value& options, const std::string& pointer);

/// Returns an error for each value at or below the dotted `keys` of a resolved recipe that is
/// derived from a secret: the secret would become public, or the text shown in its place would be
/// used as the value.
Diagnostics shown_secrets(const Value& resolved, std::initializer_list<std::string_view> keys);

/// Marks the secrets in a recipe or part of one: in `vars`, in `sweep.params` and in URLs.
void hide_secrets(Value& recipe);

/// Marks the secrets that an override sets. Returns true if there are any.
bool hide_secrets(Override& override);

/// Marks the value of an override as a secret if it replaces one that `recipe`, a recorded recipe,
/// shows only as ***. Returns true if it does.
bool hide_given_again(Override& override, const Value& recipe);

/// Returns a typed override with its secrets hidden, for display and records: "vars.api_key=***".
std::string without_secrets(const std::string& typed);

/// Like without_secrets(), for a typed override that an alias turned into `meant`: "login=***".
std::string without_secrets(const Override& typed, std::span<const Override> meant);

/// Returns a warning for each override that a later one cancels entirely. The later one sets the
/// same key under another name, such as an alias for several keys, or it replaces or removes the
/// mapping that contains the key. Typing the same key twice is not reported: the last value counts.
Diagnostics overruled_overrides(std::span<const Override> overrides);

}  // namespace runner

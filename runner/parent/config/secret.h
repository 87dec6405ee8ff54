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

/// Defines what is a secret, and what is shown instead. Nothing else decides that.
///
/// The name decides: it contains TOKEN, KEY, SECRET, PASSWORD, PASSWD, PASSPHRASE, AUTH or
/// CREDENTIAL, or ends with PASS, in any case; except for `author` and `bypass`. In a key,
/// `tokenizer` is ignored.
///
///  - An environment variable of such a name, and everything derived from it, is shown as the
///    interpolation that reads it.
///  - A text in the recipe's `vars` under such a key, at any depth, is shown as ***, whether it was
///    written in a file, in an override or as a value of a sweep. A number is a secret if its key
///    ends with such a word; for TOKEN or KEY it must also have six digits: `max_tokens` is read
///    again from the record. An interpolation that is the whole text is shown as written; a text
///    around one is shown as ***.
///  - The password of a URL, and the text after `token=` in one, is shown as ***, whichever option
///    holds the URL.
///  - Values that are shown to everyone must not be derived from a secret, and are rejected
///    (shown_secrets()): the name, the notice, the seed and the folders of a run or a sweep, and
///    what a launcher writes into its scripts.
///  - In an override as typed, the value is *** if the key is such a name, whatever it sets.
///
/// Other values in an option of a stage are part of the result and are not secrets, unless they
/// were derived from one.
///
/// Such a Value has Value::secret_as. It is marked on input: values of a file in
/// Composer::compose(), of an override in apply_alias(), of the environment in
/// interpolation_call.cpp. Interpolations propagate the mark (interpolation_*.cpp).
/// Value::text(), to_json(), write_yaml(), describe() and element_text() show it instead of the
/// data; what acts on the data calls Value::reveal(). So only two records have to check: that of
/// the graph (LiveRecord), which the worker gets complete, and that of the environment
/// (is_recorded_variable()). SecretTexts removes the data from what the worker says, prints and
/// reports: in records (LiveRecord), on the terminal (ProgressDisplay) and in diagnostics
/// (placed()).

/// The secrets of a recipe, for removing them from texts that contain them by chance, such as what
/// a stage says about its folder.
class SecretTexts {
 public:
  /// No secrets.
  SecretTexts() = default;
  /// The secrets of a recipe with resolved interpolations, and of the variables that these read,
  /// since a stage may say only a part of the text that contains a secret. Ignores texts below four
  /// bytes: they occur everywhere.
  explicit SecretTexts(const Value& recipe, const Environment& environment = process_environment);
  /// `text` with each secret replaced by what the recipe shows.
  std::string hidden_in(std::string text) const;
  Diagnostic hidden_in(Diagnostic diagnostic) const;
  /// Hides them in every text of a worker's answer.
  void hide_in(nlohmann::ordered_json& answer) const;

 private:
  std::vector<std::pair<std::string, std::string>>
      shown_;  // a secret and its replacement, the longest first
};

/// True if `value` is what a record shows instead of a secret, so that the value must be given
/// again.
bool is_lost_secret(const Value& value);

/// An error for each text in `options`, at `pointer` of the recipe, that a record shows as ***
/// instead of a secret: the user must give it again, since it is stored nowhere.
Diagnostics lost_secrets(const Value& options, const std::string& pointer);

/// An error for each text at the dotted `keys` of a resolved recipe, or below, that is derived from
/// a secret: it would be shown to everyone, or written where its placeholder has no meaning.
Diagnostics shown_secrets(const Value& resolved, std::initializer_list<std::string_view> keys);

/// Marks the secrets in the `vars` of a recipe or part of one, and in its `sweep.params`.
void hide_secrets(Value& recipe);

/// Marks the secrets that an override sets. Returns true if there are any.
bool hide_secrets(Override& override);

/// Marks values in an override that replace a secret missing from `recipe`, a recorded one. Returns
/// true if there are any.
bool hide_given_again(Override& override, const Value& recipe);

/// An override as it was typed, for display and records: "vars.api_key=***".
std::string without_secrets(const std::string& typed);

/// The same for an override that stands for others by an alias, "login=***".
std::string without_secrets(const Override& typed, std::span<const Override> meant);

/// Warnings about overrides that a later one cancels entirely: it sets the same key by another name
/// (an alias of several keys, perhaps), or replaces or removes the mapping that contains the key.
/// Typing the same key twice is not reported: the last one counts.
Diagnostics overruled_overrides(std::span<const Override> overrides);

}  // namespace runner

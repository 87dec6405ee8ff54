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

/// What is a secret, and what is shown instead of it: nothing else decides that.
///
/// The name tells. It holds TOKEN, KEY, SECRET, PASSWORD, PASSWD, PASSPHRASE, AUTH or CREDENTIAL,
/// or ends with PASS, in small letters or capitals; `author` and `bypass` are none, and a key with
/// `tokenizer` in it is judged by the rest.
///
/// - An environment variable of such a name, and whatever is made of it, is shown as the
/// interpolation that reads it.
/// - A text in the recipe's `vars` under such a key, however deep, is shown as ***, whether it was
/// written in a file,
///   in an override or as a value of a sweep. A number is one where its key ends with such a word,
///   and with TOKEN or KEY where it has six digits: `max_tokens` is read again from the record. An
///   interpolation that is all of the text is shown as it is written; a text around one is shown as
///   ***.
/// - The password of a URL, and what follows `token=` in one, is shown as ***, whatever option
/// holds the URL.
/// - What is shown to all cannot be made of a secret, and is refused (shown_secrets()): the name,
/// the notice, the seed
///   and the folders of a run or a sweep, and what a launcher writes into its scripts.
/// - Of an override, as it was typed, the value is *** where the key is such a name, whatever it
/// sets.
///
/// What else an option of a stage holds is part of the result and is no secret, unless it was made
/// of one.
///
/// Such a Value has Value::secret_as. It is marked where it comes in: of a file in
/// Composer::compose(), of an override in apply_alias(), of the environment in
/// interpolation_call.cpp. Interpolations hand the mark on (interpolation_*.cpp). to_json(),
/// write_yaml(), describe() and element_text() show it instead of the data, so that two records
/// alone have to ask: that of the graph (LiveRecord), which the worker gets whole, and that of the
/// environment (is_recorded_variable()). SecretTexts takes the data out of what the worker says,
/// prints and reports, in records (LiveRecord), on the terminal (ProgressDisplay) and in
/// diagnostics (placed()).

/// The secrets of a recipe, to take them out of texts that name them by chance, such as what a
/// stage says of its folder.
class SecretTexts {
 public:
  /// None.
  SecretTexts() = default;
  /// Of a recipe whose interpolations are resolved, and of the variables that these read: a stage
  /// may say less than all of the text that a secret is in. Texts below four bytes are left out:
  /// they stand everywhere.
  explicit SecretTexts(const Value& recipe, const Environment& environment = process_environment);
  /// `text` with each secret shown as the recipe shows it.
  std::string hidden_in(std::string text) const;
  Diagnostic hidden_in(Diagnostic diagnostic) const;
  /// Hides them in every text of what a worker has answered.
  void hide_in(nlohmann::ordered_json& answer) const;

 private:
  std::vector<std::pair<std::string, std::string>>
      shown_;  // a secret and what stands for it, the longest first
};

/// Is it what a record shows in place of a secret, so that the value must be given again?
bool is_lost_secret(const Value& value);

/// An error for each text in `options`, at `pointer` of the recipe, that a record shows as *** in
/// place of a secret: it must be given again, for nobody else knows it.
Diagnostics lost_secrets(const Value& options, const std::string& pointer);

/// An error for each text at the dotted `keys` of a resolved recipe, or below, that is made of a
/// secret: it would be shown to all, or written where its placeholder means nothing.
Diagnostics shown_secrets(const Value& resolved, std::initializer_list<std::string_view> keys);

/// Marks the secrets in the `vars` of a recipe or of a part of one, and in its `sweep.params`.
void hide_secrets(Value& recipe);

/// Marks those in what an override sets. True: there is one.
bool hide_secrets(Override& override);

/// Marks what an override gives again in place of a secret that `recipe`, a recorded one, does not
/// hold. True: it does.
bool hide_given_again(Override& override, const Value& recipe);

/// An override as it was typed, for people and for records: "vars.api_key=***".
std::string without_secrets(const std::string& typed);

/// The same of one that stands for others by an alias, "login=***".
std::string without_secrets(const Override& typed, std::span<const Override> meant);

/// Warnings of the overrides of which a later one leaves nothing: it sets the same key by another
/// name (an alias of several keys, perhaps), or replaces or removes the mapping that the key is in.
/// The same key typed twice is no mistake: the last one counts.
Diagnostics overruled_overrides(std::span<const Override> overrides);

}  // namespace runner

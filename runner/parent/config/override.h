#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What an override does to the value that is there, instead of putting another in its place:
///
///   layers=append(4,5)    layers=prepend(0)    layers=insert(1,7)    layers=remove_at(-1)
///   layers=remove_value(3) train={...}           merges; train=replace({...}) does not
struct Edit {
  enum class Kind { kAppend, kPrepend, kInsert, kRemoveAt, kRemoveValue, kReplace };
  Kind kind = Kind::kAppend;
  std::int64_t index = 0;          ///< of kInsert and kRemoveAt; negative: from the end
  std::vector<Value> values = {};  ///< what is added or removed; of kReplace exactly one
};

/// Why a list cannot be changed: "holds no 3", and what to do.
struct EditProblem {
  std::string message;
  std::string help;
};

/// Changes `list` as `edit`, which is not kReplace, says; nothing is changed when there is a
/// problem.
std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit);

struct Override;

/// Several values for one key, of which each run of a sweep takes one.
struct Sweep {
  enum class Kind {
    kSimpleChoice,  ///< a,b,c
    kChoice,        ///< choice(a,b,c)
    kRange,         ///< range(start,stop,step): half open
    kInterval,      ///< interval(start,end): for optimisers only
    kGlob,          ///< glob(include,exclude): option names of the key's group
    kZip,  ///< zip(a=[..],b=[..]): rows that set several keys at once; the override's key names the
           ///< dimension
  };
  Kind kind = Kind::kSimpleChoice;
  Location where = {};
  std::vector<std::string> tags = {};  ///< tag(log,...), each once
  bool shuffle = false;                ///< in an order that follows from the sweep's seed

  std::vector<Value> choices = {};  ///< of the choices, in order

  /// Of a range: integers, booleans (0 or 1) or floats. Of an interval: start and stop only.
  Value start = {}, stop = {}, step = {};

  std::vector<Value> include = {}, exclude = {};  ///< of a glob: patterns

  /// Of a zip, and of a sweep over an alias of several keys: what each row sets.
  std::vector<std::vector<Override>> rows = {};
};

enum class OverrideKind {
  kChange,    ///< key=value
  kAdd,       ///< +key=value
  kForceAdd,  ///< ++key=value
  kDelete,    ///< ~key or ~key=value
};

/// One command-line override, read. Its grammar is Hydra's, down to typed scalars, quotes and
/// escapes.
struct Override {
  OverrideKind kind = OverrideKind::kChange;
  std::string key;  ///< as typed: "train.epochs" or, for a config group, "model/backbone"
  Location key_where = {};
  std::string alias =
      {};  ///< what was typed where that is a short or historical name of `key`; else empty
  std::optional<std::string> package = {};  ///< what follows '@' in the key; empty for the root
  Location package_where = {};
  std::optional<Value> value =
      {};  ///< of a plain value; absent for ~key, and where there is `sweep` or `edit`
  std::optional<Sweep> sweep = {};  ///< several values, of which a run takes one: a,b or range(1,3)
  std::optional<Edit> edit = {};    ///< a change to the value that is there: append(x)
  std::string value_text = {};      ///< the value as typed
  Location where = {};              ///< the whole override
};

/// How messages show the prefix of a kind: "", "+", "++" or "~".
std::string_view prefix(OverrideKind kind);

/// Reads `source`, which holds one override: Hydra's grammar and a little more (override_value.h).
/// An empty key is refused, and so are sweeps inside lists, mappings and other sweeps.
Result<Override> parse_override(const SourceText& source);

/// Reads what stands before '=' in `source`, from byte `start` to `end`: prefix, key and package
/// are put into `result`. A key is a path `a.b.0` or a config group `a/b`; beyond Hydra's, `a[0].b`
/// is a.0.b. Throws OverrideError.
void read_override_key(const SourceText& source, std::size_t start, std::size_t end,
                       Override& result);

/// The key of `text` without prefix, package and value, as far as it looks like one; used to look
/// ahead.
std::size_t override_key_length(std::string_view text);

/// What to say of an override that lists several values where one run is asked for.
Diagnostic needs_multirun(const Override& override);

/// `value` as it may stand in an override, laid out as Hydra does: no blanks, True and False,
/// 1e-05, special characters after backslashes, quotes where it was read with quotes. Reads back as
/// the same value: a text that would not is put in quotes. A secret is shown as it is recorded.
std::string element_text(const Value& value);

/// "+a.b@c=value", "~a" or, of a sweep or an edit, as it was typed.
std::string override_text(const Override& override);

}  // namespace runner

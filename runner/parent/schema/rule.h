#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runner/shared/value/value.h"

namespace runner {

/// An x-rule of a schema: a constraint on options of a mapping.
struct Rule {
  std::string condition;  ///< "hidden_size % num_attention_heads == 0"
  std::string at;         ///< the option at which a violation is reported, "hidden_size"
  std::string message;    ///< the error; "{hidden_size}" stands for that option's value
  std::string help;
};

/// An x-effective-when of an option.
struct Effect {
  std::string when;  ///< a condition; if it is false the option has no effect
  std::string why;   ///< the reason: "clahe is off"; braces as in a Rule's message
};

/// The x-remark of a string option: a remark about the results of runs that set it.
struct Remark {
  std::string when;  ///< a condition; if it is false, there is no remark
  std::string text;  ///< what precedes the option's value; braces as in a Rule's message
};

/// The x-file of an option: what must exist at its path.
struct FileRule {
  enum class Is {
    kFile,
    kFolder,
    kFileOrFolder,
    kWeights,  ///< as accepted by find_weights()
  };
  Is is = Is::kFile;
  /// The option with the folder to which the path is relative; empty for the working directory.
  std::string below;
  /// A condition under which the file need not exist, since it will be created; empty for none.
  std::string unless;
  std::string help;  ///< advice if it is missing
};

/// Returns the value of the option at a dotted path; null if it is absent.
using OptionLookup = std::function<const Value*(std::string_view path)>;

/// Evaluates a condition. It combines options, numbers, 'strings', true, false and null with
///   and or not   == != < <= > >=   + - * / %   ( )   size(option)   least(list)   is_text(option)
///   differ(list.key)
/// as in Python. An absent option is null. least() is the smallest number in a list, and differ()
/// is true if no two items of the list have the same text under the key. Comparing or adding values
/// that are not numbers yields "unknown", and an unknown condition counts as true, like CHECK in
/// SQL: "width % heads == 0" holds if width is "auto". Throws std::invalid_argument if the text is
/// not a condition.
bool holds(std::string_view condition, const OptionLookup& look);

/// Returns `message` with each option name in braces replaced by its value.
std::string filled_in(std::string_view message, const OptionLookup& look);

}  // namespace runner

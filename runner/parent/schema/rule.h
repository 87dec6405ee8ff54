#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runner/shared/value/value.h"

namespace runner {

/// One of the x-rules of a schema: what options of a mapping must keep together.
struct Rule {
  std::string condition;  ///< "hidden_size % num_attention_heads == 0"
  std::string at;         ///< the option at whose place a broken rule is reported, "hidden_size"
  std::string message;    ///< what is wrong; "{hidden_size}" stands for that option's value
  std::string help;
};

/// One of the x-effective-when of an option.
struct Effect {
  std::string when;  ///< a condition; where it is not kept the option has no effect
  std::string why;   ///< then: "clahe is off"; what is in braces as in a Rule's message
};

/// The x-file of an option: what has to be where it leads.
struct FileRule {
  enum class Is {
    kFile,
    kFolder,
    kFileOrFolder,
    kWeights,  ///< as find_weights() takes them
  };
  Is is = Is::kFile;
  std::string below;  ///< the option with the folder that its path counts from; empty: the working
                      ///< directory
  std::string
      unless;  ///< a condition under which it need not be there, since it is made; empty: never
  std::string help;  ///< what to do where it is not there
};

/// The value of an option named by a path with dots; null: it is not there.
using OptionLookup = std::function<const Value*(std::string_view path)>;

/// Is the condition kept? It is made of options, numbers, 'texts', true, false and null with
///   and or not   == != < <= > >=   + - * / %   ( )   size(option)   least(list)   is_text(option)
///   differ(list.key)
/// as in Python. An option that is not there is null; least() is the smallest number of a list, and
/// differ() holds where no two items of the list have the same text under the key. Whether what is
/// no number is less than another, or what its sum is, is unknown, and what is unknown breaks no
/// condition, as with CHECK in SQL: "width % heads == 0" holds where width is "auto". Throws
/// std::invalid_argument for a text that is no condition.
bool holds(std::string_view condition, const OptionLookup& look);

/// `message` with the value of each option that it names in braces.
std::string filled_in(std::string_view message, const OptionLookup& look);

}  // namespace runner

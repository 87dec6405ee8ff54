#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runner/value/value.h"

namespace runner {

/// One of the x-rules of a schema: what options of a mapping must keep together.
struct Rule {
  std::string condition;  ///< "hidden_size % num_attention_heads == 0"
  std::string at;         ///< the option at whose place a broken rule is reported, "hidden_size"
  std::string message;    ///< what is wrong; "{hidden_size}" stands for that option's value
  std::string help;
};

/// The value of an option named by a path with dots; null: it is not there.
using OptionLookup = std::function<const Value*(std::string_view path)>;

/// Is the condition kept? It is made of options, numbers, 'texts', true, false and null with
///   and or not   == != < <= > >=   + - * / %   ( )   size(option)   is_text(option)
/// as in Python. An option that is not there is null. Whether what is no number is less than another, or what its sum
/// is, is unknown, and what is unknown breaks no condition, as with CHECK in SQL: "width % heads == 0" holds where
/// width is "auto". Throws std::invalid_argument for a text that is no condition.
bool holds(std::string_view condition, const OptionLookup& look);

/// `message` with the value of each option that it names in braces.
std::string filled_in(std::string_view message, const OptionLookup& look);

}  // namespace runner

#pragma once

#include <string_view>

namespace stages {

/// Does a pattern mean the parameter of that dotted name, or a module that it is in?
///
///   vision_model.head     that parameter, or all of that module
///   *                     any characters but a dot: layers.*.bias
///   **                    any characters; "**." also stands for nothing: **.bias
bool matches_parameter(std::string_view name, std::string_view pattern);

}  // namespace stages

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What of ours stands in the scripts of a cluster goes through these: one function for each language that a script is
/// written in. Each answer is on one line, provided that the text has no control characters (unfit_for_script()).

/// `text` as one word of a shell.
std::string shell_word(const std::string& text);
/// `text` as the value of an option on a line `#SBATCH --option=`, as sbatch reads it: as it is, or between quotes.
std::string sbatch_word(const std::string& text);
/// `text` as a scalar of YAML, between quotes.
std::string yaml_word(const std::string& text);
/// `text` in a `command` of Kubernetes, which puts variables in place of `$(NAME)`.
std::string unexpanded(const std::string& text);

enum class ScriptKind { kSlurm, kKubernetes };
/// What in the path of `what` ("the sweep's folder") cannot be written into a script: control characters, and what the
/// scheduler would take for something else. kClusterRefused.
std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path, const std::string& what, ScriptKind kind);

}  // namespace runner

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

// The Python that hosts this worker: it has loaded the worker's library and does what the worker
// asks. Requests and replies are JSON; tensors cross by name, through the operators retort::give
// and retort::take, which stages/python/retort_host calls.

namespace stages {

/// Does a request: 0 if it was done. Python replies by reply_to_python_call().
using PythonCall = int (*)(const char* request);

/// Says who answers call_python() from now on; borrowed. Null: this worker has no Python.
void set_python(PythonCall call);
bool has_python();
void reply_to_python_call(const char* reply);

/// Has Python do a request. If it fails, forgets the tensors and throws runner::StageError with the
/// last line of Python's traceback, the whole of which goes to standard error, hence to the log.
/// kUntrustedCode: it came upon a file that the user has not trusted; kStageFailed: any other
/// failure. Throws c10::OutOfMemoryError if memory did not suffice.
nlohmann::ordered_json call_python(const nlohmann::ordered_json& request);

/// From now on what Python prints goes to the log.txt of a run; before, only -v shows it.
void set_log_of_run();
/// "Python's traceback is in log.txt"
std::string where_the_traceback_is();

/// Says how code that waits for Python knows that the worker is to stop. Any thread may ask;
/// without an answer it is not.
void set_stop(std::function<bool()> is_to_stop);
bool is_to_stop();

/// Tensors that Python may take, and those that it gave: each once, until clear_python_tensors().
void give_to_python(const std::string& name, at::Tensor tensor);
/// Throws runner::StageError if Python has given none of that name.
at::Tensor taken_from_python(const std::string& name);
void clear_python_tensors();

}  // namespace stages

#include "runner/shared/protocol/meeting.h"

#include "runner/shared/value/json_fields.h"

namespace runner {

using Json = nlohmann::ordered_json;

Json to_json(const Meeting& meeting) {
  if (!meeting.file.empty())
    return {{"file", meeting.file.string()}, {"ranks_here", meeting.ranks_here}};
  return {{"host", meeting.host},
          {"port", meeting.port},
          {"served", meeting.is_served},
          {"job", meeting.job},
          {"ranks_here", meeting.ranks_here},
          {"cores", meeting.cores},
          {"seconds", meeting.seconds}};
}

Meeting meeting_from_json(const Json& json) {
  const JsonFields fields(json, "the meeting");
  Meeting meeting;
  meeting.ranks_here = static_cast<int>(fields.count("ranks_here"));
  if (fields.has("file")) {
    meeting.file = fields.text("file");
    return meeting;
  }
  meeting.host = fields.text("host");
  meeting.port = static_cast<int>(fields.count("port"));
  meeting.is_served = fields.flag("served");
  meeting.job = fields.text("job");
  meeting.cores = static_cast<int>(fields.count("cores"));
  meeting.seconds = static_cast<int>(fields.count("seconds"));
  return meeting;
}

}  // namespace runner

// Reading a trace. zlib's gzread passes plain files through unchanged, so one loop serves both.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "prefixrouter/trace.h"

namespace prefixrouter {
namespace {

using Json = nlohmann::json;

// A prompt of kMaxTraceTokens written as token ids fits; a gzip file that unpacks to one endless
// line does not fill the memory.
constexpr size_t kMaxLineBytes = size_t{256} << 20;
constexpr uint64_t kShownWarnings = 20;
constexpr uint64_t kMaxTimestampMs = 9'000'000'000'000;  // year 2255 as Unix time; fits in ns

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::string Shortened(std::string text, size_t length) {
  if (text.size() > length) text.replace(length, std::string::npos, "...");
  return text;
}

std::string Shown(const Json& value) { return Shortened(value.dump(), 40); }

// ---- Fields ------------------------------------------------------------------------------------

// Takes fields out of one line's object. After the first fault the rest is not looked at.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Status& status() const { return status_; }
  bool Has(const char* name) const { return object_.contains(name); }

  uint64_t WholeNumber(const char* name, uint64_t max) {
    const Json* field = Find(name);
    if (field == nullptr) return 0;
    if (IsWholeNumber(*field, max)) return field->get<uint64_t>();
    Fail(name, *field, "a whole number from 0 to " + std::to_string(max));
    return 0;
  }

  template <typename Id>
  std::vector<Id> Ids(const char* name) {
    std::vector<Id> ids;
    const Json* field = Find(name);
    if (field == nullptr) return ids;
    if (!field->is_array()) {
      Fail(name, *field, "an array of ids");
      return ids;
    }
    constexpr uint64_t kMaxId = std::numeric_limits<Id>::max();
    ids.reserve(field->size());
    for (const Json& id : *field) {
      if (!IsWholeNumber(id, kMaxId)) {
        Fail(std::string(name) + "[" + std::to_string(ids.size()) + "]", id,
             "a whole number from 0 to " + std::to_string(kMaxId));
        break;
      }
      ids.push_back(static_cast<Id>(id.get<uint64_t>()));
    }
    return ids;
  }

  // There and not null.
  bool HasValue(const char* name) const { return Has(name) && !object_[name].is_null(); }

  // Milliseconds, of which a trace may give fractions.
  int64_t MillisecondsAsNanos(const char* name) {
    const Json* field = Find(name);
    if (field == nullptr) return 0;
    if (IsWholeNumber(*field, kMaxTimestampMs)) return field->get<int64_t>() * 1'000'000;
    const double ms = field->is_number_float() ? field->get<double>() : -1;
    if (ms >= 0 && ms <= static_cast<double>(kMaxTimestampMs)) return std::llround(ms * 1e6);
    Fail(name, *field, "a number from 0 to " + std::to_string(kMaxTimestampMs));
    return 0;
  }

  std::string OptionalName(const char* name) {
    if (!HasValue(name)) return "";
    const Json& field = object_[name];
    if (field.is_string()) return field.get<std::string>();
    if (!field.is_number_integer()) Fail(name, field, "a string or a whole number");
    return field.dump();
  }

 private:
  // Whole numbers beyond 64 bits come from the parser as floating point, like fractions.
  static bool IsWholeNumber(const Json& value, uint64_t max) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= max;
  }

  const Json* Find(const char* name) {
    if (!status_.ok()) return nullptr;
    const auto field = object_.find(name);
    if (field != object_.end()) return &*field;
    status_ = Invalid(std::string("field ") + name + " is missing");
    return nullptr;
  }

  void Fail(const std::string& name, const Json& value, const std::string& wanted) {
    if (status_.ok()) status_ = Invalid(name + " is " + Shown(value) + ", not " + wanted);
  }

  const Json& object_;
  Status status_;
};

// The parser's message without its own prefix, which speaks of a "line 1".
std::string JsonError(const Json::exception& error) {
  std::string message = error.what();
  const size_t column = message.find("column ");
  message.erase(0, column != std::string::npos ? column : message.find(' ') + 1);
  return Shortened("not JSON: " + message, 200);
}

// ---- Lines -------------------------------------------------------------------------------------

class LineReader {
 public:
  // kNotFound: cannot be opened.
  Status Open(const std::string& path) {
    name_ = path == "-" ? "standard input" : path;
    errno = 0;
    gzFile file = nullptr;
    if (path == "-") {
      const int descriptor = dup(STDIN_FILENO);  // closing the trace leaves standard input open
      if (descriptor >= 0) file = gzdopen(descriptor, "rb");
    } else {
      file = gzopen(path.c_str(), "rb");
    }
    if (file == nullptr) {
      return Status(StatusCode::kNotFound, name_ + ": " + std::strerror(errno));
    }
    file_.reset(file);
    return {};
  }

  // False at the end.
  Result<bool> Next(std::string_view* line) {
    size_t searched = begin_;
    while (true) {
      const size_t end = buffer_.find('\n', searched);
      if (end != std::string::npos) {
        *line = std::string_view(buffer_).substr(begin_, end - begin_);
        begin_ = end + 1;
        return true;
      }
      if (at_end_) {
        *line = std::string_view(buffer_).substr(begin_);
        begin_ = buffer_.size();
        return !line->empty();
      }
      buffer_.erase(0, begin_);
      begin_ = 0;
      searched = buffer_.size();
      Status status = Fill();
      if (!status.ok()) return status;
    }
  }

  const std::string& name() const { return name_; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  Status Fill() {
    constexpr size_t kReadBytes = size_t{1} << 18;
    if (buffer_.size() > kMaxLineBytes) {
      return Invalid(name_ + ": a line is longer than " + std::to_string(kMaxLineBytes) + " bytes");
    }
    const size_t size = buffer_.size();
    buffer_.resize(size + kReadBytes);
    const int count = gzread(file_.get(), buffer_.data() + size, kReadBytes);
    buffer_.resize(size + static_cast<size_t>(std::max(count, 0)));
    if (count == static_cast<int>(kReadBytes)) return {};
    // Short: the end or a failure, of which a cut gzip file is one that only gzerror tells.
    at_end_ = true;
    int code = Z_OK;
    std::string_view message = gzerror(file_.get(), &code);  // "name: what is wrong"
    if (code == Z_OK || code == Z_STREAM_END) return {};
    if (code == Z_ERRNO) message = std::strerror(errno);
    const size_t colon = message.rfind(": ");
    if (colon != std::string_view::npos) message.remove_prefix(colon + 2);
    return Invalid(name_ + ": cannot be read: " + std::string(message));
  }

  std::unique_ptr<gzFile_s, Close> file_;
  std::string name_;
  std::string buffer_;  // what was read; lines before begin_ are used up
  size_t begin_ = 0;
  bool at_end_ = false;
};

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<TraceRequest> ParseTraceLine(std::string_view line, uint32_t block_tokens, bool* cut) {
  Json object;
  try {
    object = Json::parse(line.begin(), line.end());
  } catch (const Json::exception& error) {
    return Invalid(JsonError(error));
  }
  if (!object.is_object()) return Invalid("not a JSON object: " + Shown(object));

  Fields fields(object);
  TraceRequest request;
  uint64_t length = 0;        // as the line says
  uint64_t tokens_named = 0;  // by its ids
  if (fields.Has("input_tok_ids")) {
    const uint64_t max_arrival_ns = kMaxTimestampMs * 1'000'000;
    request.timestamp_ns =
        static_cast<int64_t>(fields.WholeNumber("arrival_time_ns", max_arrival_ns));
    length = fields.WholeNumber("input_toks", kMaxTraceTokens);
    request.output_tokens = fields.WholeNumber("output_toks", kMaxTraceTokens);
    request.tokens = fields.Ids<uint32_t>("input_tok_ids");
    tokens_named = request.tokens.size();
  } else {
    const bool delay_only =
        fields.HasValue("delay") && !fields.HasValue("timestamp") && fields.HasValue("session_id");
    request.timestamp_ns = delay_only ? -1 : fields.MillisecondsAsNanos("timestamp");
    length = fields.WholeNumber("input_length", kMaxTraceTokens);
    request.output_tokens = fields.WholeNumber("output_length", kMaxTraceTokens);
    request.hash_ids = fields.Ids<uint64_t>("hash_ids");
    tokens_named = request.hash_ids.size() * uint64_t{block_tokens};
  }
  request.session_id = fields.OptionalName("session_id");
  if (fields.HasValue("delay")) request.delay_ns = fields.MillisecondsAsNanos("delay");
  if (!fields.status().ok()) return fields.status();

  request.prompt_tokens = std::min(length, tokens_named);
  const uint64_t id_tokens = request.tokens.empty() ? block_tokens : 1;
  const uint64_t excess = tokens_named - request.prompt_tokens;  // of a partial last block
  *cut = request.prompt_tokens < length || excess >= id_tokens;
  return request;
}

std::string TraceLine(const TraceRequest& request) {
  nlohmann::ordered_json line;
  const auto milliseconds = [](int64_t nanos) -> Json {
    if (nanos % 1'000'000 == 0) return nanos / 1'000'000;
    return static_cast<double>(nanos) / 1e6;
  };
  if (!request.tokens.empty()) {
    line["arrival_time_ns"] = std::max<int64_t>(request.timestamp_ns, 0);
    line["input_toks"] = request.prompt_tokens;
    line["output_toks"] = request.output_tokens;
    line["input_tok_ids"] = request.tokens;
  } else {
    if (request.timestamp_ns >= 0) line["timestamp"] = milliseconds(request.timestamp_ns);
    line["input_length"] = request.prompt_tokens;
    line["output_length"] = request.output_tokens;
    line["hash_ids"] = request.hash_ids;
  }
  if (!request.session_id.empty()) line["session_id"] = request.session_id;
  if (request.delay_ns >= 0) line["delay"] = milliseconds(request.delay_ns);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options,
                        std::ostream& warnings) {
  if (options.block_tokens < 1 || options.block_tokens > 65536) {
    return Invalid("block_tokens must be 1 to 65536, got " + std::to_string(options.block_tokens));
  }
  LineReader reader;
  Status status = reader.Open(path);
  if (!status.ok()) return status;

  Trace trace;
  trace.name = reader.name();
  trace.block_tokens = options.block_tokens;
  std::string_view line;
  uint64_t line_number = 0;
  bool any_content = false;
  while (options.limit == 0 || trace.requests.size() < options.limit) {
    Result<bool> more = reader.Next(&line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    ++line_number;
    if (IsBlank(line)) continue;
    any_content = true;

    bool cut = false;
    Result<TraceRequest> request = ParseTraceLine(line, options.block_tokens, &cut);
    if (request.ok()) {
      trace.cut_lines += cut;
      trace.requests.push_back(*std::move(request));
      continue;
    }
    const std::string message =
        trace.name + ", line " + std::to_string(line_number) + ": " + request.status().message();
    if (options.on_error == OnError::kRefuse) return Invalid(message);
    ++trace.skipped_lines;
    if (trace.skipped_lines <= kShownWarnings) warnings << "skipped: " << message << "\n";
  }
  if (trace.skipped_lines > kShownWarnings) {
    warnings << "skipped: " << trace.skipped_lines - kShownWarnings << " more lines\n";
  }
  if (!any_content) return Invalid(trace.name + ": is empty");
  if (trace.requests.empty()) {
    return Invalid(trace.name + ": has no usable line (" + std::to_string(trace.skipped_lines) +
                   " malformed)");
  }
  return trace;
}

}  // namespace prefixrouter

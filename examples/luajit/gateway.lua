-- What a gateway does with PrefixRouter, in LuaJIT: it registers instances, asks for each request
-- where to send it, says how the request went, and prints why each choice was made. nginx.conf does
-- the same in nginx.
--
--   luajit gateway.lua    -- in this folder, with the library on LD_LIBRARY_PATH

local ffi = require("ffi")
local prefixrouter = require("prefixrouter")

-- Stands for the model's tokenizer: a system prompt that all users share, then the user's words.
local PROMPT_TOKENS, SYSTEM_TOKENS = 1000, 800
local function make_prompt(user)
  local tokens = ffi.new("uint32_t[?]", PROMPT_TOKENS)
  for i = 0, PROMPT_TOKENS - 1 do
    tokens[i] = i < SYSTEM_TOKENS and i or (user + 1) * 100000 + i
  end
  return tokens
end

-- One request: where to, why, and what came of it.
local function serve(router, user)
  local lease = assert(router:acquire({ tokens = make_prompt(user), token_count = PROMPT_TOKENS }))
  print(("user %d: %s by %s, %d of %d tokens cached, first token in %.3f s"):format(
    user, assert(router:name(lease.instance)), lease.rule, lease.cached_tokens,
    lease.prompt_tokens, lease.predicted_ttft_s))

  -- Here the request goes to the instance; lease:cancel() if that fails. When the first byte of the
  -- answer arrives:
  assert(lease:first_token())
  -- When the answer is complete:
  assert(lease:finish(100))
  return lease
end

local router = assert(prefixrouter.new())
local instance, message, status = router:route(make_prompt(0), PROMPT_TOKENS)
assert(not instance and status == prefixrouter.UNAVAILABLE)
print("no instance yet, a gateway answers 503: " .. message)

for _, name in ipairs({ "10.0.0.1:8000", "10.0.0.2:8000" }) do
  assert(router:add_instance(name))
end
local total, cached = 0, 0
for turn = 0, 5 do
  local lease = serve(router, turn % 3)
  total = total + lease.prompt_tokens
  cached = cached + lease.cached_tokens
end
print(("6 requests, %d %% of their tokens cached"):format(100 * cached / total))
assert(cached > total / 2, "too few tokens cached")

{{- define "gua.labels" -}}
app.kubernetes.io/name: gua
app.kubernetes.io/part-of: gua
{{- end }}

{{- define "gua.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gua.settings" -}}
GUA_INTERVAL: {{ .Values.interval | quote }}
{{- if not .Values.compatibleNames }}
GUA_COMPATIBLE: "0"
{{- end }}
{{- if .Values.otlp.enabled }}
GUA_ENDPOINT: {{ .Values.otlp.endpoint | quote }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "gua.endpoint" -}}
port: metrics
path: /metrics
interval: 30s
honorLabels: true
relabelings:
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: instance
  - action: labeldrop
    regex: pod|namespace|container|endpoint|service
{{- end }}
